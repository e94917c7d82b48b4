//! A line between a server and its database, and the weather on it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// How late what is lost comes at most, having been sent again.
const LATE_MAX_MS: u64 = 2_000;

/// What becomes of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// It arrives.
    Fair,
    /// Three pieces in ten are late, and so is everything behind them.
    Storm,
    /// Nothing arrives, without an error. It is delivered when the weather is fair.
    Clogged,
    /// Answers are lost, without an error.
    Deaf,
    /// Everything is lost, without an error.
    Cut,
}

/// Where a piece is on its way to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

/// A line by which a database is reached.
pub struct Line {
    pub address: String,
    sky: Arc<Mutex<Sky>>,
}

/// The weather for new connections, and that on each open one.
struct Sky {
    weather: Weather,
    connections: Vec<watch::Sender<Weather>>,
}

impl Line {
    pub async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let sky = Arc::new(Mutex::new(Sky { weather: Weather::Fair, connections: Vec::new() }));
        let above = sky.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, target.clone(), above.lock().unwrap().connect()));
            }
        });
        Self { address, sky }
    }

    /// Changes the weather, for every connection and for those to come.
    pub fn turn(&self, weather: Weather) {
        let mut sky = self.sky.lock().unwrap();
        sky.weather = weather;
        sky.connections.iter().for_each(|connection| connection.send_modify(|now| *now = weather));
    }

    /// Changes it on every other connection there is, and on none to come. Tells on how many.
    pub fn turn_half(&self, weather: Weather) -> usize {
        let mut sky = self.sky.lock().unwrap();
        sky.let_go();
        let half: Vec<_> = sky.connections.iter().step_by(2).collect();
        half.iter().for_each(|connection| connection.send_modify(|now| *now = weather));
        half.len()
    }
}

impl Sky {
    /// Forgets those that are over.
    fn let_go(&mut self) {
        self.connections.retain(|connection| connection.receiver_count() > 0);
    }

    fn connect(&mut self) -> watch::Receiver<Weather> {
        self.let_go();
        let (connection, weather) = watch::channel(self.weather);
        self.connections.push(connection);
        weather
    }
}

async fn carry(near: TcpStream, target: String, mut weather: watch::Receiver<Weather>) {
    // While the line is cut, new connections get no answer at all.
    if weather.wait_for(|weather| *weather != Weather::Cut).await.is_err() {
        return;
    }
    let (near, far) = (near.into_split(), TcpStream::connect(target).await.unwrap().into_split());
    tokio::select! {
        () = pass(near.0, far.1, weather.clone(), Way::There) => {}
        () = pass(far.0, near.1, weather, Way::Back) => {}
    }
}

/// Passes bytes on until one end is closed or bytes were lost; a loss shows when the weather is fair again.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut weather: watch::Receiver<Weather>, way: Way) {
    let (mut piece, mut chance) = (vec![0; 16 * 1024], 7_u64);
    while let Ok(len @ 1..) = from.read(&mut piece).await {
        let now = *weather.borrow();
        match (now, way) {
            (Weather::Fair, _) | (Weather::Deaf, Way::There) => {}
            (Weather::Storm, _) => {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let late = if (chance >> 33) % 10 < 3 { (chance >> 40) % LATE_MAX_MS } else { 0 };
                sleep(Duration::from_millis(late)).await;
            }
            (Weather::Clogged | Weather::Deaf | Weather::Cut, _) => {
                let fair = weather.wait_for(|weather| *weather == Weather::Fair).await;
                if fair.is_err() || now != Weather::Clogged {
                    return;
                }
            }
        }
        if to.write_all(&piece[..len]).await.is_err() {
            return;
        }
    }
}
