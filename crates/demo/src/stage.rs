//! Plays the scenes, and collects the records of models, store, clients and tools.

use std::time::Duration;

use everturn_server::wire::{Create, When};
use futures_util::future::{join_all, try_join_all};
use tokio::time::timeout;

use super::children::{Daemon, Understudy};
use super::dice::Dice;
use super::ledger::{Played, What};
use super::spectator::{Progress, Seen, Spectator};
use super::story::{Kind, Lane, Scene};
use super::view::Narrator;
use everturn_frontend::client::Client;

/// How long a scene may take before it is given up, and the books say what is missing.
const SCENE_MAX: Duration = Duration::from_secs(25);
/// How often the side file is looked at.
const LOOK: Duration = Duration::from_millis(4);

/// Everything that is on the stage.
pub(super) struct Stage<'a> {
    pub(super) understudy: &'a Understudy,
    pub(super) daemon: &'a mut Daemon,
    pub(super) narrator: &'a Narrator,
    pub(super) dice: Dice,
}

/// One chat being played.
struct Playing<'a> {
    lane: &'a Lane,
    chat: String,
    first: Spectator,
}

/// The outcome of a lane, before the records are collected.
struct Came {
    seen: Vec<Seen>,
    words_at_stop: u64,
}

impl Stage<'_> {
    /// Plays a scene to its end.
    pub(super) async fn play(&mut self, scene: &Scene) -> anyhow::Result<Vec<Played>> {
        let client = self.daemon.client.clone();
        let playing = try_join_all(scene.lanes.iter().map(|lane| begin(&client, lane))).await?;
        for (at, playing) in playing.iter().enumerate() {
            self.narrator.watched(at, &playing.first.progress);
        }
        let chats: Vec<String> = playing.iter().map(|playing| playing.chat.clone()).collect();
        let marks: Vec<_> = playing.iter().map(|playing| playing.first.progress.clone()).collect();
        let came = {
            let narrator = self.narrator;
            let lanes =
                playing.into_iter().enumerate().map(|(at, playing)| watch(&client, scene, (at, playing), narrator));
            let (came, sabotaged) = tokio::join!(
                join_all(lanes),
                strike(self.daemon, self.narrator, &mut self.dice, scene, marks, &chats[0])
            );
            sabotaged?;
            came.into_iter().collect::<anyhow::Result<Vec<Came>>>()?
        };
        let account = self.understudy.account().await?;
        let mut played = Vec::new();
        for ((lane, chat), Came { seen, words_at_stop }) in scene.lanes.iter().zip(&chats).zip(came) {
            let stored = client.messages(chat, None).await?.messages;
            let first = seen.first();
            played.push(Played {
                kind: scene.kind,
                wire: lane.wire.name(),
                orders: lane.orders.clone(),
                sent: account.sent(lane.model_name()),
                stored,
                effects: self.daemon.place.effects(chat)?,
                usage: client.usage(chat).await?,
                ended: first.and_then(|seen| seen.ended.clone()),
                rungs: first.map(|seen| seen.rungs.clone()).unwrap_or_default(),
                gaps_ms: first
                    .map(|seen| seen.gaps.iter().map(|gap| gap.as_millis() as u64).collect())
                    .unwrap_or_default(),
                shown: seen.into_iter().map(|seen| seen.shown).collect(),
                words_at_stop,
            });
        }
        Ok(played)
    }
}

async fn begin<'a>(client: &Client, lane: &'a Lane) -> anyhow::Result<Playing<'a>> {
    let new = Create { agent: Some(lane.agent.clone()), title: Some(lane.agent.clone()), ..Create::default() };
    let chat = client.create(&new).await?.id;
    let first = Spectator::begin("A", client, &chat);
    Ok(Playing { lane, chat, first })
}

/// Sends what is to be answered, lets the second client join, does what people do in this scene, and waits
/// for the end.
async fn watch(
    client: &Client,
    scene: &Scene,
    (at, Playing { lane, chat, first }): (usize, Playing<'_>),
    narrator: &Narrator,
) -> anyhow::Result<Came> {
    client.send(&chat, &lane.orders[0].prompt(), When::Queue).await?;
    let is_over = |progress: &Progress| progress.is_idle && progress.users >= lane.orders.len();
    let mut words_at_stop = 0;
    let mut second = None;
    let played = async {
        let joins = async {
            first.until(|progress| progress.words >= scene.joins_at || is_over(progress)).await;
            let late = Spectator::begin("B", client, &chat);
            narrator.joined(at, &late.progress);
            late
        };
        let acts = async {
            first.until(|progress| progress.words >= scene.at || is_over(progress)).await;
            act(client, scene.kind, lane, &chat, &first).await
        };
        let (late, stopped) = tokio::join!(joins, acts);
        words_at_stop = stopped?;
        let late = second.insert(late);
        first.until(is_over).await;
        late.until(is_over).await;
        anyhow::Ok(())
    };
    if let Ok(played) = timeout(SCENE_MAX, played).await {
        played?;
    }
    let mut seen = vec![first.end().await?];
    if let Some(second) = second {
        seen.push(second.end().await?);
    }
    Ok(Came { seen, words_at_stop })
}

/// What people do in the middle of a turn. Says how much was shown when they pressed stop, if they did.
async fn act(client: &Client, kind: Kind, lane: &Lane, chat: &str, first: &Spectator) -> anyhow::Result<u64> {
    match kind {
        Kind::Join => first.cut(),
        Kind::Steer => {
            client.send(chat, &lane.orders[1].prompt(), When::Steer).await?;
        }
        Kind::Stop => {
            client.send(chat, &lane.orders[1].prompt(), When::Queue).await?;
            let shown = first.progress.borrow().words;
            client.interrupt(chat).await?;
            return Ok(shown);
        }
        _ => {}
    }
    Ok(0)
}

/// What the saboteur does to the daemon.
async fn strike(
    daemon: &mut Daemon,
    narrator: &Narrator,
    dice: &mut Dice,
    scene: &Scene,
    mut marks: Vec<tokio::sync::watch::Receiver<Progress>>,
    chat: &str,
) -> anyhow::Result<()> {
    let Some(mark) = marks.first_mut() else { return Ok(()) };
    let when = match scene.kind {
        Kind::Kill => {
            let Ok(progress) = mark.wait_for(|progress| progress.words >= scene.at).await else { return Ok(()) };
            format!("after t{}", progress.words)
        }
        Kind::KillTool => {
            let what = if dice.within(0..=1) == 0 { What::Start } else { What::Effect };
            let running = async {
                loop {
                    let lines = daemon.place.effects(chat)?;
                    if let Some(line) = lines.iter().find(|line| line.what == what && line.tool == "note") {
                        return anyhow::Ok(format!("{} {}", line.tool, line.number));
                    }
                    tokio::time::sleep(LOOK).await;
                }
            };
            let Ok(name) = timeout(SCENE_MAX, running).await else { return Ok(()) };
            let place = if what == What::Start { "before" } else { "after" };
            format!("while {} ran, {place} its effect", name?)
        }
        _ => return Ok(()),
    };
    let pid = daemon.pid();
    daemon.kill().await?;
    narrator.deed(&format!("kill -9 {pid}, {when}"));
    let took = daemon.restart().await?;
    narrator.deed(&format!("the daemon is back as {} after {} ms", daemon.pid(), took.as_millis()));
    Ok(())
}
