//! The demonstration: the bank's promises, played over real HTTP against a server in memory.

mod client;
mod delivery;
mod money;
mod refusals;
mod report;
mod time;

pub use report::Report;

use crate::server::{Options, Server, StartError};
use client::{Client, Failed};
use report::Scene;
use std::time::Duration;

/// The demonstration sweeps when it says so, and not by itself.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long anything is waited for before it counts as not having happened.
const PATIENCE: Duration = Duration::from_secs(30);

/// Plays every scene and checks the books at the end. The server's clock stands still unless a scene moves it, so that
/// nothing depends on how fast the machine is.
///
/// # Errors
/// [`StartError`] if there is no server to play against. What goes wrong in a scene is in the report.
pub async fn play() -> Result<Report, StartError> {
    let options = Options { held_clock: true, sweep_every: SWEEP_EVERY, ..Options::default() };
    let server = Server::start(options).await?;
    let client = Client::new(server.address).map_err(StartError::Other)?;
    let mut report = Report::default();
    let stage = Stage { client, server };
    report.add("a", "One transfer, told to both on both channels", money::one_transfer(&stage).await);
    report.add("b", "A double click", money::double_click(&stage).await);
    report.add("c", "Two transfers race for one balance", money::race(&stage).await);
    report.add("d", "The reply of a confirm is lost", money::lost_reply(&stage).await);
    report.add("e", "Every event arrives five times", delivery::five_times(&stage).await);
    report.add("f", "Approvals that are none", refusals::no_approval(&stage).await);
    report.add("g", "Aoi to Ren and Ren to Aoi at once", money::both_ways(&stage).await);
    report.add("h", "What is closed stays closed", refusals::closed(&stage).await);
    report.add("i", "The day turns in Japan", time::midnight(&stage).await);
    report.add("", "At the end, over all items", delivery::books(&stage).await);
    stage.server.stop().await;
    Ok(report)
}

/// Where the scenes are played.
struct Stage {
    client: Client,
    server: Server,
}

impl Stage {
    /// Waits until every message on the queue is done.
    async fn settled(&self) -> Result<(), Failed> {
        let mut counts = self.server.bank.queue.counts();
        let settled = counts.wait_for(|counts| counts.unfinished == 0);
        tokio::time::timeout(PATIENCE, settled).await??;
        Ok(())
    }

    /// How many messages the notifier has accepted so far.
    fn deliveries(&self) -> u64 {
        self.server.bank.queue.counts().borrow().done
    }
}

/// What a scene came to.
type Played = Result<Scene, Failed>;
