//! A small Lambda Runtime API that runs the real binaries of functions.
//!
//! A [`Function`] stands for one execution environment: at most one process of one program, which is started when an
//! event needs it, answers one event at a time, is killed when its time is over, and is replaced by a fresh one when the
//! next event finds it gone. So a test, or a benchmark, sees of a function what Lambda sees of it:
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.
//!
//! The process gets the variables that it is given and those of the runtime, and no others: nothing of the caller's
//! environment, so no credentials, leaks into it.

pub mod api;
pub mod events;
pub mod programs;

use api::{Answer, Offer, RuntimeApi};
use serde_json::Value;
use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::{Notify, oneshot, watch},
};

/// How long a process may take until it asks for its first event; Lambda gives ten seconds.
pub const INIT_TIME: Duration = Duration::from_secs(10);
/// Lines of a function's output that are kept, the newest.
const LINES_MAX: usize = 1_000;

/// How a function is run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The function's binary.
    pub program: PathBuf,
    /// The variables that it is configured by.
    pub environment: Vec<(String, String)>,
    /// How long it may take for one event.
    pub timeout: Duration,
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The function's response.
    Answered(Value),
    /// The function reported an error instead.
    Failed(Value),
    /// The process ended before it answered.
    Died,
    /// The time was over, and the process was killed.
    TimedOut,
    /// The process did not get as far as asking for an event; what it said.
    NotStarted(String),
}

/// One execution environment of a function. Clones are the same one.
#[derive(Clone)]
pub struct Function(Arc<Environment>);

struct Environment {
    setup: Setup,
    /// An environment has one event at a time; whoever comes meanwhile waits.
    turn: tokio::sync::Mutex<()>,
    process: Mutex<Option<Arc<Process>>>,
    lines: Arc<Mutex<VecDeque<String>>>,
}

struct Process {
    api: RuntimeApi,
    id: Option<u32>,
    kill: Notify,
    /// How it ended, once it has.
    ended: watch::Sender<Option<io::Result<ExitStatus>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Function {
    /// A function that has no process yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let (turn, process, lines) = (tokio::sync::Mutex::default(), Mutex::default(), Arc::default());
        Self(Arc::new(Environment { setup, turn, process, lines }))
    }

    /// Has the function handle one event, in its process or in a fresh one.
    ///
    /// # Errors
    /// If no process can be started or served at all; what becomes of the event in a process is no error.
    pub async fn invoke(&self, event: &Value) -> io::Result<Outcome> {
        let _turn = self.0.turn.lock().await;
        let process = self.ready_process().await?;
        let process = match process {
            Ok(process) => process,
            Err(said) => return Ok(Outcome::NotStarted(said)),
        };
        let (answer, answered) = oneshot::channel();
        process.api.offer(Offer::new(event, self.0.setup.timeout, answer));
        tokio::select! {
            // What arrived before the end was said, whatever happened to the process then.
            biased;
            Ok(answer) = answered => Ok(match answer {
                Answer::Response(body) => Outcome::Answered(body),
                Answer::Error(body) => Outcome::Failed(body),
            }),
            () = process.gone() => Ok(Outcome::Died),
            () = tokio::time::sleep(self.0.setup.timeout) => {
                process.end().await;
                Ok(Outcome::TimedOut)
            }
        }
    }

    /// Starts a process, if there is none, and waits until it asks for an event.
    ///
    /// # Errors
    /// As [`Function::invoke`]; also if the process does not get that far.
    pub async fn start(&self) -> io::Result<()> {
        let _turn = self.0.turn.lock().await;
        self.ready_process().await?.map(drop).map_err(io::Error::other)
    }

    /// Kills the process, if there is one (SIGKILL: it does nothing more), and waits until it is gone. An event that it
    /// was handling has [`Outcome::Died`].
    pub async fn kill(&self) {
        let process = lock(&self.0.process).clone();
        if let Some(process) = process {
            process.end().await;
        }
    }

    /// The process's id, while there is one.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        lock(&self.0.process).as_ref().filter(|process| !process.is_gone()).and_then(|process| process.id)
    }

    /// The newest lines that the function's processes wrote to their outputs.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        lock(&self.0.lines).iter().cloned().collect()
    }

    /// The process, ready for an event; what it said if it did not get there.
    async fn ready_process(&self) -> io::Result<Result<Arc<Process>, String>> {
        let present = lock(&self.0.process).clone().filter(|process| !process.is_gone());
        let process = match present {
            Some(process) => process,
            None => {
                let process = self.spawn().await?;
                *lock(&self.0.process) = Some(Arc::clone(&process));
                process
            }
        };
        let is_ready = tokio::select! {
            biased;
            () = process.api.asked() => true,
            () = process.gone() => false,
            () = tokio::time::sleep(INIT_TIME) => false,
        };
        if is_ready {
            return Ok(Ok(process));
        }
        process.end().await;
        let said = process.api.init_error().map_or_else(|| self.lines().join("\n"), |error| error.to_string());
        Ok(Err(said))
    }

    async fn spawn(&self) -> io::Result<Arc<Process>> {
        let (api, address) = RuntimeApi::serve().await?;
        let setup = &self.0.setup;
        let name = setup.program.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut child = Command::new(&setup.program)
            .env_clear()
            .envs([
                ("AWS_LAMBDA_RUNTIME_API", address.to_string().as_str()),
                ("AWS_LAMBDA_FUNCTION_NAME", &name),
                ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
                ("AWS_LAMBDA_LOG_GROUP_NAME", &name),
                ("AWS_LAMBDA_LOG_STREAM_NAME", &name),
            ])
            .envs(setup.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        self.keep_lines(child.stdout.take());
        self.keep_lines(child.stderr.take());
        let process = Arc::new(Process { api, id: child.id(), kill: Notify::new(), ended: watch::Sender::new(None) });
        tokio::spawn(Arc::clone(&process).watch(child));
        Ok(process)
    }

    fn keep_lines(&self, output: Option<impl AsyncRead + Unpin + Send + 'static>) {
        let Some(output) = output else { return };
        let kept = Arc::clone(&self.0.lines);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut kept = lock(&kept);
                if kept.len() == LINES_MAX {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if let Some(process) = lock(&self.process).take() {
            process.kill.notify_one();
        }
    }
}

impl Process {
    /// Waits for the end of the process, and brings it about when it is told to.
    async fn watch(self: Arc<Self>, mut child: Child) {
        let ended = tokio::select! {
            ended = child.wait() => ended,
            () = self.kill.notified() => match child.start_kill() {
                Ok(()) => child.wait().await,
                Err(error) => Err(error),
            },
        };
        self.ended.send_replace(Some(ended));
    }

    fn is_gone(&self) -> bool {
        self.ended.borrow().is_some()
    }

    async fn gone(&self) {
        // The sender is the process's own, so it is there as long as somebody waits.
        self.ended.subscribe().wait_for(Option::is_some).await.map(drop).unwrap_or_default();
    }

    async fn end(&self) {
        self.kill.notify_one();
        self.gone().await;
    }
}
