//! Deals out tasks.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;

use crate::query::ReviewsCodec;

/// How long a scheduler waits for an executor that is not heard of, in seconds. It asks for work ten times a second.
pub(crate) const PATIENCE: u64 = 20;

/// How long executors keep texts for whoever submitted, in seconds: it fetches them piece by piece.
const KEPT_FOR: u64 = 6 * 3600;

/// How often the scheduler looks for lost executors, in seconds.
const LOOK_EVERY: u64 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// The address to listen at
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// The port to listen at; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 50050)]
    port: u16,
    /// An executor that was not heard of for so many seconds is lost, and what it did is done again by others
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE, value_parser = clap::value_parser!(u64).range(3..))]
    patience: u64,
}

pub(crate) async fn run(args: SchedulerArgs) -> Result<()> {
    let scheduler = Scheduler::bind(args.listen, args.port, args.patience).await?;
    println!("scheduler at {}", scheduler.address);
    tokio::select! {
        ended = scheduler.serve() => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// A scheduler that listens already.
pub(crate) struct Scheduler {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    server: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
}

impl Scheduler {
    pub(crate) async fn bind(listen: IpAddr, port: u16, patience: u64) -> Result<Self> {
        let listener = TcpListener::bind((listen, port)).await;
        let listener = listener.with_context(|| format!("{listen}:{port} cannot be listened at"))?;
        let address = listener.local_addr()?;
        let config = SchedulerConfig {
            external_host: address.ip().to_string(),
            bind_host: address.ip().to_string(),
            bind_port: address.port(),
            scheduling_policy: TaskSchedulingPolicy::PullStaged,
            executor_timeout_seconds: patience,
            expire_dead_executor_interval_seconds: LOOK_EVERY,
            no_executors_grace_period_seconds: patience,
            finished_job_data_clean_up_interval_seconds: KEPT_FOR,
            // Whoever submits need reach nobody but the scheduler.
            enable_embedded_flight_proxy: true,
            override_physical_codec: Some(Arc::new(ReviewsCodec::default())),
            ..SchedulerConfig::default()
        };
        let cluster = BallistaCluster::new_from_config(&config).await?;
        let server = create_scheduler(cluster, Arc::new(config)).await?;
        Ok(Self { listener, address, server })
    }

    /// Deals out work, for ever.
    pub(crate) async fn serve(self) -> Result<()> {
        Ok(start_grpc_service_with_listener(self.listener, self.server).await?)
    }
}
