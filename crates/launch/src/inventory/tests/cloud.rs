//! What the command lines of three clouds print, shortened to what is looked at and some of what is not.

use super::{check, load};

const AWS: &str = r#"{
    "Reservations": [
        {
            "ReservationId": "r-0c1e1d1b8e0d10e1b",
            "Instances": [
                {
                    "InstanceId": "i-0abc000000000001",
                    "InstanceType": "t3.medium",
                    "PrivateIpAddress": "172.31.16.226",
                    "PublicDnsName": "ec2-54-1-2-3.us-west-2.compute.amazonaws.com",
                    "PublicIpAddress": "54.1.2.3",
                    "State": {"Code": 16, "Name": "running"},
                    "Tags": [{"Key": "Owner", "Value": "me"}, {"Key": "Name", "Value": "head"}]
                },
                {
                    "InstanceId": "i-0abc000000000002",
                    "PrivateIpAddress": "172.31.27.245",
                    "PublicDnsName": "",
                    "State": {"Code": 16, "Name": "running"},
                    "Tags": [{"Key": "Name", "Value": "head"}]
                }
            ]
        },
        {
            "Instances": [
                {"InstanceId": "i-0abc000000000003", "State": {"Code": 48, "Name": "terminated"}},
                {"InstanceId": "i-0abc000000000004", "State": {"Name": "running"}, "PublicIpAddress": "54.1.2.4",
                 "Tags": [{"Key": "Name", "Value": "a worker; rm -rf /"}]}
            ]
        }
    ]
}"#;

#[test]
fn aws() {
    let expect = "head=54.1.2.3, i-0abc000000000002=172.31.27.245, i-0abc000000000004=54.1.2.4";
    check(AWS, expect);
    let value: serde_json::Value = serde_json::from_str(AWS).expect("JSON");
    check(&value.to_string(), expect);
    // As `--query 'Reservations[].Instances[]'` and `--query 'Reservations[].Instances'` have it.
    let reservations = value["Reservations"].as_array().expect("a list");
    let inner: Vec<_> = reservations.iter().map(|one| one["Instances"].clone()).collect();
    check(&serde_json::json!(inner).to_string(), expect);
    let flat: Vec<_> = inner.iter().flat_map(|list| list.as_array().expect("a list").clone()).collect();
    check(&serde_json::to_string_pretty(&flat).expect("JSON"), expect);
}

#[test]
fn google() {
    let text = r#"[
  {
    "name": "fire-1",
    "machineType": "https://www.googleapis.com/compute/v1/projects/p/zones/europe-west1-b/machineTypes/e2-medium",
    "networkInterfaces": [
      {"accessConfigs": [{"name": "external-nat", "natIP": "34.76.1.2", "type": "ONE_TO_ONE_NAT"}],
       "networkIP": "10.132.0.2"}
    ],
    "status": "RUNNING"
  },
  {"name": "fire-2", "networkInterfaces": [{"networkIP": "10.132.0.3"}], "status": "RUNNING"},
  {"name": "fire-3", "networkInterfaces": [{"networkIP": "10.132.0.4"}], "status": "TERMINATED"}
]"#;
    check(text, "fire-1=34.76.1.2, fire-2=10.132.0.3");
}

#[test]
fn hetzner() {
    let text = r#"[{"id": 42, "name": "fire-1", "status": "running",
      "public_net": {"ipv4": {"ip": "65.21.1.2", "blocked": false}, "ipv6": {"ip": "2001:db8:1::/64"}},
      "private_net": [], "server_type": {"name": "cax11"}},
     {"name": "fire-2", "status": "running", "public_net": {"ipv4": null, "ipv6": {"ip": "2001:db8:2::/64"}},
      "private_net": [{"ip": "10.0.0.3"}]},
     {"name": "fire-3", "status": "running", "public_net": {"ipv4": null, "ipv6": {"ip": "2001:db8:3::/64"}}},
     {"name": "fire-4", "status": "off", "public_net": {"ipv4": {"ip": "65.21.1.5"}}}]"#;
    check(text, "fire-1=root@65.21.1.2, fire-2=root@10.0.0.3, fire-3=root@2001:db8:3::1");
}

#[test]
fn lists_that_help_nobody() {
    let check = |text: &str, expect: &str| assert_eq!(load(text, None).expect_err(text), expect, "{text}");
    check("[]", "hosts lists no machines");
    check(r#"{"Reservations": []}"#, "hosts lists no machines");
    check(
        r#"{"Reservations": [{"Instances": [{"InstanceId": "i-1", "State": {"Name": "stopped"}}]}]}"#,
        "hosts has no machine that runs: i-1 is stopped",
    );
    check(
        r#"[{"InstanceId": "i-1", "State": {"Name": "running"}}]"#,
        "hosts i-1, which runs, has no address: neither a public nor a private one",
    );
    check(
        r#"[{"name": "volume-1", "size": 10}]"#,
        "hosts has a machine, number 1, that is neither of `aws ec2 describe-instances`, \
         `gcloud compute instances list --format=json` nor `hcloud server list -o json`",
    );
    check(
        r#"[{"InstanceId": "i-1", "PublicIpAddress": "-oProxyCommand=evil"}]"#,
        "hosts i-1: expected the name or address of a host, found `-oProxyCommand=evil`",
    );
    let error = load("[{\n\"InstanceId\": ", None).expect_err("half a file");
    assert!(error.starts_with("hosts:2: is no JSON: "), "{error}");
    let error =
        load(r#"[{"InstanceId": "i-1", "PublicIpAddress": "1.2.3.4"}]"#, Some("pool")).expect_err("a group");
    assert!(error.contains("is a list without groups"), "{error}");
}
