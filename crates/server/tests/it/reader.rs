//! A minimal client of a chat's stream.

use std::time::Duration;

use everturn_server::wire::{Event, Follower, Status, View};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::time::timeout;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a stream and folds it.
pub struct Reader {
    response: Response,
    /// Bytes of an incomplete event.
    rest: String,
    pub follower: Follower,
    pub comments: Vec<String>,
}

/// The next thing received from a stream.
#[derive(Debug, PartialEq)]
pub enum Came {
    /// An event; `changed` if it changed the view.
    Event {
        changed: bool,
    },
    Comment,
    /// The end of the stream.
    End,
    /// The connection broke.
    Cut,
}

impl Reader {
    pub async fn open(request: RequestBuilder) -> Self {
        Self::resume(request, Follower::default()).await
    }

    pub async fn resume(request: RequestBuilder, follower: Follower) -> Self {
        Self::try_resume(request, follower).await.expect("a stream")
    }

    /// Returns the follower if the server cannot be reached or does not answer with a stream.
    pub async fn try_resume(request: RequestBuilder, mut follower: Follower) -> Result<Self, Follower> {
        let request = match follower.cut() {
            Some(cursor) => request.header("last-event-id", cursor),
            None => request,
        };
        match request.send().await {
            Ok(response) if response.status() == StatusCode::OK => {
                assert_eq!(response.headers()["content-type"], "text/event-stream");
                Ok(Self { response, rest: String::new(), follower, comments: Vec::new() })
            }
            _ => Err(follower),
        }
    }

    /// Reads until the view fulfils the condition, and returns it.
    pub async fn until(&mut self, is_so: impl Fn(&View) -> bool) -> View {
        while !is_so(self.follower.view()) {
            let came = self.next().await;
            assert!(!matches!(came, Came::End | Came::Cut), "{came:?} {:?}", self.follower.view());
        }
        self.follower.view().clone()
    }

    /// Reads until the turn is over.
    pub async fn until_rest(&mut self) -> View {
        self.until(rests).await
    }

    /// Reads to the end of the stream.
    pub async fn until_the_end(&mut self) {
        loop {
            match self.next().await {
                Came::End => return,
                Came::Cut => panic!("the stream broke"),
                Came::Event { .. } | Came::Comment => {}
            }
        }
    }

    /// Reads at most `bytes` bytes, then drops the connection.
    pub async fn cut_after(mut self, bytes: usize) -> Follower {
        let mut read = 0;
        while read < bytes {
            let Ok(Ok(Some(more))) = timeout(PATIENCE, self.response.chunk()).await else { break };
            let more = &more[..more.len().min(bytes - read)];
            read += more.len();
            // The understudy's text is ASCII, so no cut is inside a character.
            self.rest.push_str(std::str::from_utf8(more).unwrap());
            while let Some(event) = self.whole() {
                self.take(&event);
            }
            if self.is_at_rest() {
                break;
            }
        }
        self.follower
    }

    pub fn is_at_rest(&self) -> bool {
        let status = self.follower.view().status.as_ref();
        status.is_some_and(|status| status.status == Status::Idle && status.ended.is_some())
    }

    pub async fn next(&mut self) -> Came {
        loop {
            if let Some(event) = self.whole() {
                return self.take(&event);
            }
            match timeout(PATIENCE, self.response.chunk()).await.expect("the stream is silent") {
                Ok(Some(bytes)) => self.rest.push_str(std::str::from_utf8(&bytes).unwrap()),
                Ok(None) => return Came::End,
                Err(_) => return Came::Cut,
            }
        }
    }

    fn whole(&mut self) -> Option<String> {
        let end = self.rest.find("\n\n")?;
        let event = self.rest[..end].to_owned();
        self.rest.drain(..end + 2);
        Some(event)
    }

    fn take(&mut self, event: &str) -> Came {
        let (mut name, mut id, mut data) = (None, None, None);
        for line in event.lines() {
            match line.split_once(": ") {
                Some(("event", value)) => name = Some(value),
                Some(("id", value)) => id = Some(value),
                Some(("data", value)) => assert_eq!(data.replace(value), None, "data is one line"),
                Some(("retry", _)) => {}
                Some(("", comment)) => self.comments.push(comment.into()),
                _ => panic!("not a line of this protocol: {line}"),
            }
        }
        let (Some(name), Some(data)) = (name, data) else { return Came::Comment };
        let event = Event::parse(name, data).unwrap().unwrap();
        Came::Event { changed: self.follower.take(event, id).unwrap() }
    }
}

/// Whether the turn is over and the queue is empty.
pub fn rests(view: &View) -> bool {
    let status = view.status.as_ref();
    status.is_some_and(|status| {
        matches!(status.status, Status::Idle | Status::Failed) && status.ended.is_some() && status.queue.is_empty()
    })
}

/// The text of the newest reply.
pub fn reply(view: &View) -> String {
    use everturn_server::wire::{Body, Part};
    let reply = view.messages.iter().rev().find_map(|message| match &message.body {
        Body::Reply(reply) => Some(reply),
        _ => None,
    });
    let texts = reply.into_iter().flat_map(|reply| &reply.parts).filter_map(|part| match part {
        Part::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}
