//! Interleavings that are known to be dangerous, each with the test that plays it. Those that are not in this folder
//! stand beside what they belong to.
//!
//! | interleaving | test |
//! |---|---|
//! | a confirm stalls over midnight, and another posting cleans up its account's old days | [`days`]`::a_confirm_that_stalls_over_midnight_cannot_use_its_day_twice`, `…_uses_what_its_day_had_left_or_the_new_day`, `a_confirm_whose_day_was_cleaned_up_meets_a_fence` |
//! | of two confirms one commits, and the other sees conflicts alone until its time runs out | [`confirms`]`::a_confirm_that_saw_only_conflicts_answers_with_the_transfer_that_another_posted` |
//! | the same, and its authorization grows stale meanwhile | `faults::confirm::a_confirm_that_met_only_conflicts_looks_once_more_before_it_calls_its_authorization_stale` |
//! | a refusal is being recorded while funds arrive and another confirm posts | `faults::refusal::a_record_that_comes_too_late_answers_what_became_of_the_instruction` |
//! | a refusal's own record is lost, or its outcome unknown | `faults::refusal::a_record_that_was_never_known_to_commit_is_no_refusal`, `a_record_whose_replies_are_all_lost_is_unknown_unless_a_read_shows_it` |
//! | an authorization's reply is lost, and it is repeated with the same code | `faults::entry::an_authorization_whose_reply_was_lost_is_repeated_with_the_same_code` |
//! | an authorization's first send is in doubt, and the rest is refused or conflicts | [`codes`]`::an_authorization_with_a_send_in_doubt_is_unknown_and_not_contended` |
//! | a double click on authorize with a code that the next step has too | [`codes`]`::a_double_click_with_a_code_that_the_next_step_has_too_is_replayed` |
//! | twenty wrong codes at once, on authorize, enrolment and replacement | `authorize::twenty_wrong_codes_at_once_are_five_guesses`, `every_route_that_tests_a_code_shares_one_guess_budget` |
//! | an old confirm arrives after the instruction was authorized anew | [`confirms`]`::an_old_confirm_does_not_consume_the_authorization_that_replaced_its_own`, `a_posting_that_arrives_after_a_new_authorization_moves_nothing` |
//! | cancel, sweep and confirm at once | `concurrency::confirming_cancelling_and_sweeping_at_once_have_one_outcome`, `faults::confirm::a_posting_that_arrives_after_a_fence_moves_nothing` |
//! | either account is frozen, closed or loses its identity while a posting is in flight | [`confirms`]`::an_account_that_is_frozen_while_a_posting_is_on_its_way_is_not_posted_to`, `a_freeze_that_a_posting_overtakes_comes_after_it` |
//! | a limit is lowered while a posting is in flight, also as the day turns | [`days`]`::a_limit_that_is_lowered_…`, `a_lowering_…`, `faults::limits` |
//! | an account is closed while a deposit or a transfer is on its way to it | [`closings`] |
//! | a notifier dies after claiming the mail, and a duplicate arrives within the lease | [`deliveries`]`::a_duplicate_within_the_lease_of_a_dead_notifier_sends_the_other_channel_and_waits` |
//! | five receives are used up before a lease ends, or before anything was claimed | [`deliveries`]`::a_message_whose_receives_end_…` |
//! | a claim's first send arrives after the provider refused | [`deliveries`]`::a_claim_that_arrives_late_does_not_hold_a_row_that_waits_for_its_next_try` |
//! | an enrolment's first send arrives after a second enrolment | [`codes`]`::an_enrolment_that_arrives_late_does_not_replace_the_secret_that_was_shown_after_it` |
//! | a notifier dies after the provider accepted | `notifications::a_crash_after_a_send_is_undecided_and_never_repeated` |
//! | a look is torn between instruction and journal | [`looks`]`::a_look_torn_between_instruction_and_journal_is_made_once_more` |
//! | a batch read leaves keys unprocessed | `faults::entry::keys_that_were_left_unprocessed_are_read_again_and_never_taken_as_absent` |
//! | a posting's first send is unknown, and the second is cancelled by a conflict | `faults::confirm::conflicts_after_a_send_in_doubt_are_never_called_contended` |
//! | a send meets what its own first send wrote, and the token is forgotten | `faults::confirm::the_conditions_guard_where_the_token_is_forgotten`, `faults::notify::an_inbox_whose_replies_were_lost_under_a_forgotten_token_is_opened_once`, `faults::refusal::a_record_that_meets_itself_is_a_refusal_like_any_other` |

mod closings;
mod codes;
mod confirms;
mod days;
mod deliveries;
mod looks;
