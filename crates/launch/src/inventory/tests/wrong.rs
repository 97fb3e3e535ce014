//! Files with a mistake: which line it is on, and what would be right.

use super::load;

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(load(text, None).expect_err(text), expect, "{text}");
}

#[test]
fn nothing_to_use() {
    check("", "hosts has no hosts; write one a line");
    check("# none\n; yet\n", "hosts has no hosts; write one a line");
    check("[pool]\n", "hosts has no hosts in the group `pool`");
    check("all:\n", "hosts has no hosts");
    check("---\n", "hosts has no hosts");
    check("{}", "hosts has no hosts");
    check(
        "#!/usr/bin/env python3\n",
        "hosts is a program that prints an inventory; run it with --list and keep what it prints in a file",
    );
    check("$ANSIBLE_VAULT;1.1;AES256\n31\n", "hosts is encrypted; decrypt it with `ansible-vault view`");
    check(
        "plugin: aws_ec2\n",
        "hosts:1: configures a plugin of Ansible; keep what `ansible-inventory --list` prints in a file",
    );
}

#[test]
fn groups_that_are_not_there() {
    let check =
        |text: &str, group: &str, expect: &str| assert_eq!(load(text, Some(group)).expect_err(text), expect);
    check(
        "[pool]\na\n[desk]\nb\n",
        "pol",
        "hosts has no group `pol` (groups: all, pool, desk); did you mean `pool`?",
    );
    check("[pool]\na\n", "raspberries", "hosts has no group `raspberries` (groups: all, pool)");
    check(
        "a slots=2\n",
        "pool",
        "hosts is a list without groups, so there is no group `pool`; leave the group out",
    );
}

#[test]
fn watts() {
    check(
        "[pool]\npi1\npi2 watts=-1,5\n",
        "hosts:3: host `pi2`: watts: idle must be from 0 to 100000, found `-1`",
    );
    check(
        "pool:\n  hosts:\n    pi1:\n      watts: {idle: 6, full: 5}\n",
        "hosts:4: host `pi1`: watts: full must be from 6, as when it is idle, to 100000, found `5`",
    );
    check(
        "pool:\n  hosts:\n    pi1:\n  vars:\n    watts: [1, 2]\n",
        "hosts:5: host `pi1`: watts: expected text, found a list or mapping",
    );
}

#[test]
fn ini() {
    check("[pool]\npi1\n\npi[1:3\n", "hosts:4: the range of `pi[1:3` lacks its `]`");
    check("[pool]\npi[1:20000]\n", "hosts:2: the range `[1:20000]` stands for more than 10000 hosts");
    check("[pool]\npi1:99999\n", "hosts:2: expected a port from 1 to 65535, found `99999`");
    check(
        "[pool]\npi1 pi2\n",
        "hosts:2: expected key=value behind the host, found `pi2` (a comment here begins with `#`)",
    );
    check("[pool]\npi1 a='x\n", "hosts:2: a quote is not closed");
    check(
        "[pool:hots]\npi1\n",
        "hosts:1: expected [pool], [pool:children] or [pool:vars], found `[pool:hots]`",
    );
    check(
        "[my pool]\npi1\n",
        "hosts:1: expected the name of a group without spaces, such as `[pool]`, found `[my pool]`",
    );
    check("[]\npi1\n", "hosts:1: expected the name of a group without spaces, such as `[pool]`, found `[]`");
    check("[pool]\na\n[pool:vars]\nx\n", "hosts:4: expected key=value, found `x`");
    check(
        "[pool]\na\n[poll:vars]\nx=1\n",
        "hosts:3: there is no section [poll] (groups: all, pool); did you mean `pool`?",
    );
    check("[a]\nx\n[b:children]\na\nc\n", "hosts:5: there is no section [c] (groups: all, a, b)");
    check(
        "[a:children]\nb\n[b:children]\na\n",
        "hosts:4: the group `a` cannot be in `b`, which is in `a` itself",
    );
    check("[a:children]\na\n", "hosts:2: the group `a` cannot be in `a`, which is in `a` itself");
    check("[a:children]\nall\n[b]\nx", "hosts:2: the group `all` cannot be in `a`: it holds every group");
    check("[a:children]\nx y\n", "hosts:2: expected the name of a group, found `x y`");
}

#[test]
fn variables() {
    let port = "expected a port from 1 to 65535, found";
    check("[pool]\npi1\npi2 ansible_port=ssh\n", &format!("hosts:3: host `pi2`: ansible_port: {port} `ssh`"));
    check(
        "[pool]\npi1\n[pool:vars]\na=1\nansible_port=0\n",
        &format!("hosts:5: host `pi1`: ansible_port: {port} `0`"),
    );
    check(
        "pool:\n  hosts:\n    pi1:\n      ansible_port: [22]\n",
        "hosts:4: host `pi1`: ansible_port: expected text, found a list or mapping",
    );
    check(
        "pi1 ansible_user=-oProxyCommand=x",
        "hosts:1: host `pi1`: ansible_user: expected the name of a user, found `-oProxyCommand=x`",
    );
    check(
        "[pool]\npi1\n[pool:vars]\nansible_user=pi # me",
        "hosts:4: host `pi1`: ansible_user: expected the name of a user, found `pi # me`",
    );
    check(
        "pi1 ansible_host=-x",
        "hosts:1: host `pi1`: ansible_host: expected the name or address of a host, found `-x`",
    );
    check(
        "pi1 slots=0 a=b",
        "hosts:1: host `pi1`: slots: expected a number of slots from 1 to 1024, found `0`",
    );
    check(
        "pi1 ansible_ssh_private_key_file=/no/such",
        "hosts:1: host `pi1`: ansible_ssh_private_key_file: the key file /no/such cannot be read: No such \
         file or directory (os error 2)",
    );
    check(
        "pi1 ansible_ssh_private_key_file=/tmp",
        "hosts:1: host `pi1`: ansible_ssh_private_key_file: the key /tmp is no file",
    );
    check(
        "pi1 ansible_ssh_private_key_file=~pi/.ssh/id",
        "hosts:1: host `pi1`: ansible_ssh_private_key_file: `~pi/.ssh/id` does not tell where the key is; \
         write the whole path",
    );
    check(
        "pi1 ansible_host='{{ address }}'",
        "hosts:1: host `pi1`: ansible_host: `{{ address }}` is a template of Ansible; write the value itself \
         (only inventory_dir and inventory_hostname are filled in)",
    );
    check(
        "a\nb ansible_connection=local",
        "hosts:2: host `b`: ansible_connection: `local` is no way to start a node, only ssh is; choose a \
         group without this host, or leave the variable out",
    );
    check(
        "pool: {hosts: {a: {ansible_user: !vault 'x'}}}",
        "hosts:1: host `a`: ansible_user: is encrypted by ansible-vault; write it in the clear",
    );
    check(
        "a ansible_ssh_common_args='-o \"x'",
        "hosts:1: host `a`: ansible_ssh_common_args: a quote is not closed",
    );
    check(
        "[a]\nx\n[a:vars]\nansible_group_priority=high\n",
        "hosts:4: `ansible_group_priority` needs a whole number, found `high`",
    );
    // Of a host that is not asked for, nothing needs to be right.
    assert!(load("a ansible_connection=local\n[pool]\nb\n", None).is_ok());
}

#[test]
fn yaml() {
    check("all:\n  hosts:\n    - pi1\n    - {a: b}\n", "hosts:4: expected a name");
    check(
        "all:\n  hosts: {a:, b:}\n  childen: {}\n",
        "hosts:3: `childen`: a group has only `hosts`, `children` and `vars`",
    );
    check(
        "all:\n  hosts:\n    pi1:\n    pi2:\n    pi1:\n",
        "hosts:5: the key `pi1` is given twice, first on line 3",
    );
    check("all:\n  hosts:\n    pi[1:3:\n", "hosts:3: the range of `pi[1:3` lacks its `]`");
    check(
        "all:\n  hosts:\n    pi1: fast\n",
        "hosts:3: `pi1`: expected the variables of a host, such as `{ansible_port: 22}`",
    );
    check("all: everything\n", "hosts:1: `all`: expected a group with `hosts`, `children` or `vars`");
    check("---\n- pi1\n", "hosts:2: expected a mapping, such as `all: {hosts: {pi1: {}, pi2: {}}}`");
    check("all: {hosts: {a: }}\n---\nall:\n", "hosts:2: a second document begins here; an inventory is one");
    check(
        "a:\n  children:\n    b:\n      children:\n        a:\n",
        "hosts:5: `a`: the group `a` cannot be in `b`, which is in `a` itself",
    );
    let deep = "{\"a\": ".repeat(70);
    assert!(load(&deep, None).expect_err("deep").contains("nested deeper than 64 levels"));
}

#[test]
fn hostfiles() {
    check("a slots=2\nb slots=two\n", "hosts:2: expected a number of slots from 1 to 1024, found `two`");
    check("a slots=4 max_slots=2\n", "hosts:1: slots=4 is more than max_slots=2");
    check(
        "a\nb c\n",
        "hosts:2: expected one host a line, with slots=N behind it if it takes several nodes, found `c`",
    );
    check("a slots=2\nb:2\n", "hosts:2: write `b slots=2` as on other lines, not `b:2`");
    let ambiguous = |n| {
        format!(
            "hosts:2: is `:{n}` a port or the number of slots? Write `b ansible_port={n}` or `b slots={n}`"
        )
    };
    check("a\nb:22\n", &ambiguous(22));
    check("a:2\nb:2222\n", &ambiguous(2222));
    check("a\nb:\n", "hosts:2: expected a number of slots from 1 to 1024, found ``");
    check("a\n-b\n", "hosts:2: expected the name or address of a host, found `-b`");
}
