use everturn_core::cost::Micros;
use everturn_core::delta::GenerationHandle;
use everturn_core::ids::StepId;
use everturn_testkit::rehearsal::sample::{call, cut_call, draft, text};

use super::*;

const SENT_NEITHER: SentContent = SentContent { chain: false, media: false };
const SENT_CHAIN: SentContent = SentContent { chain: true, media: false };
const SENT_BOTH: SentContent = SentContent { chain: true, media: true };
const SENT_MEDIA: SentContent = SentContent { chain: false, media: true };

/// One break after the first attempt of a step. The agent has a second model.
struct Case {
    error: ProviderError,
    said: Vec<Delta>,
    spent: RetrySpent,
    sent: SentContent,
    can: Capabilities,
    next_model: Option<StepAttempts>,
}

impl Case {
    fn of(kind: ErrorKind) -> Self {
        let spent = RetrySpent { tries: 1, attempts: 1, ..RetrySpent::default() };
        let next_model = Some(StepAttempts { model: 1, ..StepAttempts::default() });
        let error = ProviderError::new("understudy", kind);
        Self { error, said: Vec::new(), spent, sent: SENT_NEITHER, can: Capabilities::default(), next_model }
    }

    fn retry(self, retry: Retry) -> Self {
        Self { error: self.error.with_retry(retry), ..self }
    }

    fn said(self, said: impl IntoIterator<Item = Delta>) -> Self {
        Self { said: said.into_iter().collect(), ..self }
    }

    fn spent(self, spent: RetrySpent) -> Self {
        Self { spent, ..self }
    }

    fn sent(self, sent: SentContent) -> Self {
        Self { sent, ..self }
    }

    fn reattach(self) -> Self {
        Self { can: Capabilities { reattach: Reattach::Yes, ..self.can }, ..self }
    }

    fn last_model(self) -> Self {
        Self { next_model: None, ..self }
    }

    fn tried(&self) -> StepAttempts {
        StepAttempts { attempts: 1, spent: self.spent, unbilled_attempt: true, ..StepAttempts::default() }
    }

    fn decides(&self) -> Decision {
        let draft = draft(StepId(1), &self.said);
        let Self { error, sent, can, next_model, .. } = self;
        let broken =
            Break { error, draft: &draft, tried: self.tried(), sent: *sent, can: *can, next_model: *next_model };
        decide(&broken, &RetryLimits::default(), 0.5)
    }
}

fn all(tries: u32, attempts: u32) -> RetrySpent {
    RetrySpent { tries, attempts, ..RetrySpent::default() }
}

fn wait(millis: u64, generation: Generation) -> Decision {
    Decision::Wait { span: Duration::from_millis(millis), generation }
}

/// Breaks that are waited for, salvaged, or the end of the turn.
#[test]
fn each_break_has_its_decision() {
    use ErrorKind::{Auth, ContextFull, Overloaded, Truncated};
    let handle = || Delta::Handle(Box::new(GenerationHandle { id: "r".into(), cursor: String::new() }));
    let calls = || call(0, "look", "{}").into_iter().chain(cut_call(1, "look", "{"));
    let cases = [
        ("too long a prompt", Case::of(ContextFull), Decision::MakeRoom),
        (
            "too long a prompt in the last attempt",
            Case::of(ContextFull).spent(all(1, 24)),
            Decision::Fail(Some(GiveUpReason::Permanent)),
        ),
        ("nothing came", Case::of(Overloaded), wait(500, Generation::Another)),
        ("text came", Case::of(Truncated).said([text("Hel")]), wait(500, Generation::Another)),
        (
            "the provider says when",
            Case::of(Overloaded).retry(Retry::After(Duration::from_secs(7))),
            wait(7_500, Generation::Another),
        ),
        ("no failure", Case::of(Truncated).retry(Retry::Now), wait(0, Generation::Another)),
        ("a generation that is kept", Case::of(Truncated).said([handle()]).reattach(), wait(500, Generation::Same)),
        ("a generation that is lost", Case::of(Truncated).said([handle()]), wait(500, Generation::Another)),
        ("whole calls came", Case::of(Truncated).said(calls()), Decision::Salvage { retract: vec![1] }),
        (
            "whole calls came, and no attempt is left",
            Case::of(Truncated).said(calls()).spent(all(8, 24)),
            Decision::Salvage { retract: vec![1] },
        ),
        (
            "whole calls came, and the key is refused",
            Case::of(Auth).said(calls()),
            Decision::Salvage { retract: vec![1] },
        ),
        ("the key is refused", Case::of(Auth), Decision::Fail(Some(GiveUpReason::Permanent))),
        (
            "no try is left for the last model",
            Case::of(Overloaded).spent(all(8, 8)).last_model(),
            Decision::Fail(Some(GiveUpReason::Tries)),
        ),
        (
            "no attempt is left for any model",
            Case::of(Overloaded).spent(all(1, 24)),
            Decision::Fail(Some(GiveUpReason::Attempts)),
        ),
        (
            "no money is left for any model",
            Case::of(Overloaded).spent(RetrySpent { cost: Micros::units(11), ..all(1, 1) }),
            Decision::Fail(Some(GiveUpReason::Cost)),
        ),
    ];
    for (name, case, decision) in cases {
        assert_eq!(case.decides(), decision, "{name}");
    }
}

/// Breaks that are answered by a request at once: with the whole transcript, without media, or to another model.
#[test]
fn some_breaks_change_the_terms() {
    use ErrorKind::{ChainBroken, Config, Generic, Overloaded, UsageLimit};
    for (name, case) in
        [("chained", Case::of(ChainBroken).sent(SENT_CHAIN)), ("or so", Case::of(Config).sent(SENT_BOTH))]
    {
        let whole = StepAttempts { without_chain: true, ..case.tried() };
        assert_eq!(case.decides(), Decision::AskAgain(whole), "{name}");
    }
    for (name, case) in [
        ("media refused", Case::of(Generic).sent(SENT_MEDIA)),
        ("text came, so it is not the chain", Case::of(Generic).sent(SENT_BOTH).said([text("Hel")])),
    ] {
        let blind = StepAttempts { without_media: true, ..case.tried() };
        assert_eq!(case.decides(), Decision::AskAgain(blind), "{name}");
    }
    for (name, case) in [
        ("no try is left here", Case::of(Overloaded).spent(all(8, 8))),
        ("the account is used up", Case::of(UsageLimit).spent(all(1, 8))),
        ("the provider wants too long a wait", Case::of(Overloaded).retry(Retry::After(Duration::from_secs(121)))),
    ] {
        let spent = all(0, case.spent.attempts);
        let next = StepAttempts { attempts: 1, model: 1, spent, ..StepAttempts::default() };
        assert_eq!(case.decides(), Decision::AskAgain(next), "{name}");
    }
}
