//! The set of a case: an engine, the adapter of one wire, and a server where the case wants it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use everturn::core::chat::TurnEnd;
use everturn::core::limits::Limits;
use everturn::core::message::text_of;
use everturn::core::status::Status;
use everturn::core::view::{Event, View};
use everturn::providers::http::Http;
use everturn::{ChatHandle, Engine};
use everturn_understudy::Understudy;
use everturn_understudy::http::{Logged, UnderstudyOptions, UnderstudyServer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::OnceCell;

use super::case::{Case, Place, Then};
use super::front;
use super::trace::Trace;
use super::way::Way;
use crate::stage::{counter, echo};
use crate::stepwise::Stepwise;

/// Clients by their limits: making one takes long.
pub struct Sockets(Mutex<Vec<(Limits, Http)>>);

impl Sockets {
    pub fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub fn with(&self, limits: &Limits) -> Http {
        let mut clients = self.0.lock().unwrap();
        if let Some((_, http)) = clients.iter().find(|(own, _)| own == limits) {
            return http.clone();
        }
        let http = Http::direct(limits);
        clients.push((limits.clone(), http.clone()));
        http
    }
}

/// A port that takes no connections.
#[derive(Default)]
struct Held {
    bound: Option<TcpSocket>,
    full: Option<(TcpListener, TcpStream)>,
}

impl Held {
    fn bind(&mut self) -> SocketAddr {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        self.bound.insert(socket).local_addr().unwrap()
    }

    /// Listens, with room for one waiting connection, and has one waiting.
    async fn fill(&mut self) -> SocketAddr {
        self.bind();
        let listener = self.bound.take().unwrap().listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        self.full = Some((listener, TcpStream::connect(address).await.unwrap()));
        address
    }
}

/// An engine that speaks one way to one server.
pub struct Stage {
    engine: Engine,
    pub chat: ChatHandle,
    understudy: Understudy,
    server: OnceCell<UnderstudyServer>,
    options: UnderstudyOptions,
    comes: bool,
    /// Keeps the port of a server that is not there yet.
    _held: Held,
}

impl Stage {
    pub async fn set(case: &Case, way: Way, understudy: Understudy, sockets: &Sockets) -> Self {
        let faults = case.faults.split('+').filter(|fault| !fault.is_empty()).map(|fault| fault.parse().unwrap());
        let mut options = UnderstudyOptions {
            faults: faults.collect(),
            kept_len_max: case.kept_len_max,
            ..UnderstudyOptions::default()
        };
        let (mut held, server) = (Held::default(), OnceCell::new());
        let mut address = match case.place {
            Place::Later | Place::Gone => held.bind(),
            Place::Full => held.fill().await,
            Place::There | Place::Secure | Place::Nameless | Place::Behind(_) => {
                let started = UnderstudyServer::start(understudy.clone(), options.clone()).await.unwrap();
                let address = started.address();
                server.set(started).unwrap();
                address
            }
        };
        options.address = address;
        if let Place::Behind(first) = &case.place {
            address = front::before(address, first(way)).await;
        }
        let url = match case.place {
            Place::Secure => format!("https://{address}"),
            // A label that no name may have, so that no resolver need be asked.
            Place::Nameless => format!("http://{}.invalid", "x".repeat(64)),
            _ => format!("http://{address}"),
        };
        let limits = way.patience(&case.limits);
        let mut agent = way.agent(way.model(), limits.clone());
        if case.falls_back {
            agent = agent.or(way.other_model().parse().unwrap());
        }
        let agent = agent.tool(echo("echo", &counter())).unwrap();
        let builder = Engine::builder().store(Arc::new(Stepwise::default())).agent("it", agent).seed(7);
        let engine = way.provider(builder, &url, sockets.with(&limits)).start();
        let chat = engine.create("it").await.unwrap();
        let comes = matches!(case.place, Place::Later);
        Self { engine, chat, understudy, server, options, comes, _held: held }
    }

    pub fn requests(&self) -> Vec<Logged> {
        self.server.get().map(UnderstudyServer::requests).unwrap_or_default()
    }

    /// Says something, and watches until the chat rests.
    pub async fn turn(&self, then: Then) -> (String, TurnEnd) {
        let (mut events, mut view, mut trace) = (self.chat.events(None), View::default(), Trace::default());
        let mut then = Some(then);
        view.fold(&events.next().await.unwrap()).unwrap();
        let ended_before = view.standing.as_ref().and_then(|standing| standing.ended.clone()).is_some();
        let mut runs = !ended_before;
        self.chat.send("Count.").await.unwrap();
        loop {
            let event = events.next().await.unwrap();
            view.fold(&event).unwrap();
            trace.see(&event);
            let waits = matches!(&event, Event::Standing(standing) if standing.retry.is_some());
            if waits && self.comes && self.server.get().is_none() {
                let started = UnderstudyServer::start(self.understudy.clone(), self.options.clone()).await.unwrap();
                self.server.set(started).unwrap();
            }
            let said = view.draft.as_ref().map(|draft| text_of(draft.parts())).unwrap_or_default();
            let is_time = match then {
                None | Some(Then::Waits) => false,
                Some(Then::Interrupts(word)) => said.contains(&format!("t{word} ")),
                Some(Then::InterruptsTheWait) => waits,
            };
            if is_time {
                then = None;
                self.chat.interrupt().await.unwrap();
            }
            let standing = view.standing.as_ref().expect("a snapshot came first");
            runs |= standing.status == Status::Running;
            if let (true, Status::Idle | Status::Failed, Some(end), Some(_)) =
                (runs, standing.status, &standing.ended, events.cursor())
            {
                return (trace.read(), end.clone());
            }
        }
    }

    /// Waits until the provider has noticed that its stream was closed.
    pub async fn stream_is_closed(&self) {
        self.engine.shutdown().await;
        while self.understudy.streams_open() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
