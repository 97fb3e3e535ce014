use super::*;

/// What `NAME=value` words say.
fn read(variables: &str) -> Result<Option<RankPlace>, Contradiction> {
    let lookup = |name: &str| {
        let mut words = variables.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    place(&lookup)
}

/// `LAUNCHER RANK/SIZE local=… master=… job=…`, or `-`.
#[track_caller]
fn check(variables: &str, expect: &str) {
    let found = match read(variables) {
        Err(error) => panic!("{variables}: {error}"),
        Ok(None) => "-".to_owned(),
        Ok(Some(RankPlace { launcher, rank, size, local_size, master, job })) => {
            let mut words = vec![format!("{launcher:?} {rank}/{size}")];
            words.extend(local_size.map(|local| format!("local={local}")));
            words.extend(master.map(|master| format!("master={master}")));
            words.extend(job.map(|job| format!("job={job}")));
            words.join(" ")
        }
    };
    assert_eq!(found, expect, "{variables}");
}

#[track_caller]
fn refuse(variables: &str, fragment: &str) {
    let error = read(variables).expect_err("a contradiction").to_string();
    assert!(error.contains(fragment), "{variables}: {error}");
}

const MPIRUN: &str = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
                      PMIX_NAMESPACE=670105601 PMIX_RANK=1 OMPI_MCA_orte_precondition_transports=28-26";
const SRUN: &str = "SLURM_JOB_ID=17 SLURM_STEP_ID=2 SLURM_PROCID=3 SLURM_NTASKS=6 SLURM_NODEID=1 \
                    SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_STEP_NODELIST=pi[03-04] \
                    SLURM_LAUNCH_NODE_IPADDR=10.0.0.9";
const TORCH: &str = "RANK=2 WORLD_SIZE=3 LOCAL_WORLD_SIZE=1 MASTER_ADDR=head MASTER_PORT=29500";

#[test]
fn nobody_started_it() {
    check("", "-");
    check("HOME=/home/ada PATH=/bin", "-");
    check("RANK=captain", "-");
    check("WORLD_SIZE=3", "-");
    check("MASTER_ADDR=head MASTER_PORT=29500", "-");
    check("OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE=", "-");
}

#[test]
fn every_launcher_is_understood() {
    check(MPIRUN, "OpenMpi 1/4 local=2 job=670105601.28-26");
    check("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=99", "OpenMpi 0/2 job=99");
    check("PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=2 PMI_PORT=pi:4711", "Pmi 0/2 local=2 job=pi:4711");
    check(SRUN, "Slurm 3/4 local=2 master=pi03 job=17.2.0");
    check(TORCH, "Torchrun 2/3 local=1 master=head:29500");
    check("RANK=0 WORLD_SIZE=2", "Torchrun 0/2");
}

#[test]
fn the_inner_launcher_is_believed() {
    check(&format!("{MPIRUN} {SRUN}"), "OpenMpi 1/4 local=2 job=670105601.28-26");
    check(&format!("{SRUN} PMI_RANK=3 PMI_SIZE=4"), "Slurm 3/4 local=2 master=pi03 job=17.2.0");
    check(&format!("{SRUN} MASTER_ADDR=other"), "Slurm 3/4 local=2 master=other job=17.2.0");
    let agents = format!("{MPIRUN} {TORCH} TORCHELASTIC_RUN_ID=seven TORCHELASTIC_USE_AGENT_STORE=True");
    check(&agents, "Torchrun 2/3 local=1 master=head job=seven.head.29500");
    let both = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 RANK=2 WORLD_SIZE=3 MASTER_ADDR=head";
    check(both, "OpenMpi 2/3 master=head");
}

#[test]
fn a_batch_script_is_alone() {
    check("SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0", "-");
    check("SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=4294967291", "-");
    let old = "SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEPID=0";
    check(old, "Slurm 0/4 job=17.0.0");
    check(&format!("{old} SLURM_RESTART_COUNT=2"), "Slurm 0/4 job=17.0.2");
}

#[test]
fn what_cannot_be_is_refused() {
    refuse("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not");
    refuse("PMI_SIZE=4", "PMI_SIZE is set, but PMI_RANK is not");
    refuse("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4", "ranks go from 0");
    refuse("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=0", "ranks go from 0");
    refuse("OMPI_COMM_WORLD_RANK=one OMPI_COMM_WORLD_SIZE=4", "\"one\", which is no whole number");
    refuse("OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=4", "\"-1\"");
    refuse("RANK=captain WORLD_SIZE=3", "the variable RANK is \"captain\"");
    refuse("RANK=1 MASTER_ADDR=head", "RANK is set, but WORLD_SIZE is not");
    refuse("RANK=0 WORLD_SIZE=2 MASTER_ADDR=head MASTER_PORT=99999", "MASTER_PORT is 99999");
    refuse("SLURM_STEP_ID=first SLURM_PROCID=0 SLURM_NTASKS=2", "SLURM_STEP_ID");
    refuse("SLURM_STEP_ID=0 SLURM_NTASKS=2", "SLURM_NTASKS is set, but SLURM_PROCID is not");
    refuse(&format!("{MPIRUN} {TORCH}"), "mpirun says rank 1 of 4, but RANK and WORLD_SIZE say rank 2 of 3");
}

#[test]
fn lists_of_machines() {
    let check = |list: &str, expect: &str| assert_eq!(first_host(list).as_deref(), Some(expect), "{list}");
    check("head", "head");
    check("head,pi[01-03]", "head");
    check("pi[01-03,07]", "pi01");
    check("pi[7,9]-ib", "pi7-ib");
    check("rack[2-3]n[10-12]", "rack2n10");
    assert_eq!(first_host("pi[01"), None);
    let tasks = |list: &str, node: u32| tasks_on(list, node);
    assert_eq!([0, 1, 2, 3].map(|node| tasks("4(x2),3", node)), [Some(4), Some(4), Some(3), None]);
    assert_eq!(tasks("many", 0), None);
}
