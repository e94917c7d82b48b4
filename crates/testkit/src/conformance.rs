//! The rules of stores, as tests that any store can run.
//!
//! The engine relies on what a store does when two want the same, when one comes late, and when the same thing is sent
//! twice. None of that is in a signature, so it is here: every case takes an empty store and asks for one promise. Most
//! work beside a [`Stage`](everturn_testkit::rehearsal::Stage), the plainest picture of a chat, and compare the two after
//! every write. [`conformance!`](crate::conformance!) makes a test of each case.

pub mod bounds;
pub mod commits;
pub mod deleting;
pub mod families;
pub mod generated;
pub mod inbox;
pub mod journal;
pub mod lease;
mod lots;
pub mod making;
pub mod reads;
pub mod samples;
pub mod unicode;
pub mod watchers;
mod witness;

pub use witness::Witness;

/// Makes a test of every case, in a module of the store's name.
///
/// Written as a test function, so that it can claim ids of `docs/acceptance.md` as every test does. The body makes an
/// empty store and may wait.
///
/// ```text
/// everturn_testkit::conformance! {
///     /// CS02, CS03: …
///     #[test]
///     fn memory() -> Memory { Memory::new() }
/// }
/// ```
#[macro_export]
macro_rules! conformance {
    ($(#[$meta:meta])* fn $name:ident() -> $store:ty $open:block) => {
        mod $name {
            use super::*;

            async fn open() -> std::sync::Arc<$store> {
                std::sync::Arc::new($open)
            }

            $crate::conformance_cases! {
                inbox: a_chat_is_made_once, a_key_has_one_effect, a_key_belongs_to_one_body_in_one_chat,
                    parallel_repeats_make_one_command, parallel_commands_have_numbers_of_their_own,
                    a_refused_command_leaves_no_trace, commands_are_checked_against_what_is_on_its_way,
                    an_outcome_is_known_once_obeyed, obeyed_commands_leave_the_inbox_in_order, a_full_queue_is_full;
                lease: a_taken_over_lease_changes_nothing, a_lease_that_was_never_given_changes_nothing,
                    a_lease_fences_its_own_chat_alone, taking_over_finds_everything_in_every_status,
                    parallel_takeovers_leave_one_writer, a_lease_says_which_was_before_it, commands_need_no_lease;
                journal: rows_are_shown_once_they_are_stored, rows_that_do_not_follow_are_refused_together,
                    rows_that_are_handed_in_can_be_read_when_that_is_told,
                    rows_outlive_commits_within_the_step, rows_go_with_their_step, a_step_that_is_over_takes_no_rows,
                    a_subscriber_that_saw_lost_deltas_gets_a_snapshot;
                commits: versions_count_commits, a_driver_goes_on_from_the_newest_summary,
                    a_rewound_summary_brings_back_what_it_stood_for, attempts_are_kept_whatever_becomes_of_the_turn,
                    a_dropped_write_happened_whole_or_not_at_all, chats_are_apart,
                    budget_use_is_counted_by_owner_and_day, steps_and_tools_are_counted_in_their_turn, work_is_counted_once;
                reads: a_chat_that_is_not_there_is_an_error, reading_changes_nothing, chats_are_listed_and_found,
                    unsettled_chats_are_listed_oldest_first, without_a_cursor_there_is_a_snapshot,
                    a_cursor_that_cannot_be_used_gets_a_snapshot, a_catch_up_is_whole, an_edit_is_told_as_one,
                    a_long_chat_is_shown_by_its_newest_page;
                bounds: a_subscriber_that_missed_too_much_gets_a_page, long_messages_make_short_pages,
                    bytes_are_read_for_whom_they_are;
                making: a_chat_is_made_with_its_model, a_chat_keeps_what_it_has_of_its_own, a_key_of_an_owner_makes_one_chat, a_key_of_a_fork_outlives_its_source, parallel_repeats_make_one_chat, a_fork_begins_with_what_was_said,
                    a_fork_is_a_chat_of_its_own, a_fork_ends_where_no_call_is_open, a_fork_takes_bytes_along,
                    messages_are_found_by_their_words, chats_at_work_are_counted;
                deleting: nothing_is_left_of_a_deleted_chat, a_deleted_chat_is_not_written_to,
                    a_deleted_chat_can_be_made_anew, deleting_takes_the_newest_lease;
                families: chats_of_sub_agents_are_listed_apart, chats_below_a_deleted_chat_are_found,
                    chats_below_are_counted;
                unicode: odd_text_comes_back_from_every_message, odd_text_comes_back_from_every_delta,
                    odd_text_comes_back_from_every_command, odd_text_comes_back_from_every_other_fact,
                    odd_names_and_keys_are_told_apart;
                generated: any_life_of_a_chat_is_stored_as_it_was;
                watchers: every_watcher_sees_what_is_there;
            }
        }
    };
}

/// What [`conformance!`](crate::conformance!) makes of its list.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($($module:ident: $($case:ident),+;)+) => {$(
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::conformance::$module::$case(super::open().await).await;
                }
            )+
        }
    )+};
}

#[cfg(test)]
mod tests {
    /// A case that is written and not listed never runs.
    #[test]
    fn every_case_is_listed() {
        let list = include_str!("conformance.rs");
        let cases = [
            include_str!("conformance/inbox.rs"),
            include_str!("conformance/lease.rs"),
            include_str!("conformance/journal.rs"),
            include_str!("conformance/commits.rs"),
            include_str!("conformance/reads.rs"),
            include_str!("conformance/making.rs"),
            include_str!("conformance/deleting.rs"),
            include_str!("conformance/families.rs"),
            include_str!("conformance/unicode.rs"),
            include_str!("conformance/generated.rs"),
            include_str!("conformance/watchers.rs"),
        ];
        let names = cases.iter().flat_map(|file| file.split("\npub async fn ").skip(1));
        let names: Vec<&str> = names.filter_map(|rest| rest.split('<').next()).collect();
        assert!(names.len() > 40, "{names:?}");
        let unlisted: Vec<_> = names.iter().filter(|name| !list.contains(**name)).collect();
        assert!(unlisted.is_empty(), "not listed in conformance!: {unlisted:?}");
    }
}
