#include "client/session/session.hpp"

#include <gtest/gtest.h>

namespace gleaner::session {
namespace {

// Feeds a session and keeps what it wants done.
class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    run_.id = {5};
    run_.name = "r";
    run_.dimension = 100;
    run_.schema_hash = 9;
    take(session_.begin());
  }

  void take(std::vector<Action> actions) {
    for (auto& action : actions) seen_.push_back(std::move(action));
  }
  void feed(const Event& event) { take(session_.handle(event, Instant{})); }
  void receive(const Message& message) { feed(MessageArrived{message}); }
  template <class A>
  std::vector<A> seen() const {
    std::vector<A> found;
    for (const auto& action : seen_) {
      if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
    }
    return found;
  }
  template <class M>
  std::vector<M> sent() const {
    std::vector<M> found;
    for (const auto& send : seen<Send>()) {
      if (const auto* m = std::get_if<M>(&send.message)) found.push_back(*m);
    }
    return found;
  }
  void forget() { seen_.clear(); }

  void connect_and_join(const Held& held = {}) {
    feed(Connected{});
    receive(Welcome{});
    receive(Offer{run_, {3}});
    feed(RunOpened{.run = {5}, .samples = 40, .schema_hash = 9, .held = held});
  }
  static Plan plan(std::uint64_t id, std::uint64_t sync_bytes = 0) {
    return {.run = {5},
            .id = {id},
            .round = 1,
            .sync = sync_bytes == 0 ? SyncKind::seeded : SyncKind::snapshot,
            .sync_bytes = sync_bytes};
  }

  RunSpec run_;
  Session session_{{.software = "test", .cores = 1}};
  std::vector<Action> seen_;
};

TEST_F(SessionTest, GreetsOpensTheRunAndAcceptsWithWhatItHolds) {
  EXPECT_EQ(seen<Connect>().size(), 1U);
  connect_and_join({.has_model = true,
                    .lineage = {3},
                    .version = {8},
                    .model_hash = 77,
                    .pending_plan = {4},
                    .pending_digest = {6}});
  EXPECT_EQ(sent<Hello>().size(), 1U);
  EXPECT_EQ(seen<OpenRun>().front().spec, run_);
  const auto accept = sent<Accept>().front();
  EXPECT_EQ(accept.samples, 40U);
  EXPECT_EQ(accept.version.value, 8U);
  EXPECT_EQ(accept.pending_plan.value, 4U);
  EXPECT_EQ(accept.pending_digest.value, 6U);
}

TEST_F(SessionTest, DeclinesARunThatItHasNoDataFor) {
  feed(Connected{});
  receive(Welcome{});
  receive(Offer{run_, {3}});
  feed(RunOpened{.run = {5}, .error = Error(ErrorCode::not_found, "no data is called x here")});
  EXPECT_EQ(sent<Accept>().size(), 0U);
  EXPECT_EQ(sent<Decline>().front().reason, "no data is called x here");
}

TEST_F(SessionTest, SettlesBeforeItWorksAndAnswersWhenDone) {
  connect_and_join();
  Plan p = plan(2);
  p.settled_plan = {1};
  p.settled_outcome = Outcome::included;
  forget();
  receive(p);
  ASSERT_EQ(seen_.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<SettlePlan>(seen_[0]));
  EXPECT_TRUE(std::holds_alternative<Execute>(seen_[1]));
  feed(Executed{.run = {5}, .plan = {2}, .answer = Answer{.run = {5}, .plan = {2}, .send = true}});
  EXPECT_EQ(seen<SendAnswer>().size(), 1U);
}

TEST_F(SessionTest, APlanSentTwiceIsWorkedOnOnce) {
  connect_and_join();
  forget();
  receive(plan(2));
  receive(plan(2));
  EXPECT_EQ(seen<Execute>().size(), 1U);
}

TEST_F(SessionTest, WaitsForTheWholeModelAndRefusesGaps) {
  connect_and_join();
  const Bytes bytes(400);
  Plan p = plan(2, 400);
  p.sync_head = ByteView(bytes).first(100);
  forget();
  receive(p);
  EXPECT_EQ(seen<Execute>().size(), 0U);
  receive(SyncChunk{.plan = {2}, .offset = 100, .bytes = ByteView(bytes).first(300)});
  ASSERT_EQ(seen<Execute>().size(), 1U);
  EXPECT_EQ(seen<Execute>().front().task.sync.size(), 400U);
  receive(plan(3, 400));
  receive(SyncChunk{.plan = {3}, .offset = 50, .bytes = ByteView(bytes).first(10)});
  EXPECT_EQ(seen<CloseConnection>().size(), 1U);
}

TEST_F(SessionTest, AModelUpdateLargerThanTheModelIsNotTaken) {
  connect_and_join();
  forget();
  receive(plan(2, 1ULL << 40));
  EXPECT_EQ(seen<CloseConnection>().size(), 1U);
}

TEST_F(SessionTest, AnAnswerThatIsReadyWithoutAConnectionWaitsForTheNextAccept) {
  connect_and_join();
  receive(plan(2));
  feed(Disconnected{Error(ErrorCode::retry, "gone")});
  forget();
  feed(Executed{.run = {5}, .plan = {2}, .answer = Answer{.run = {5}, .plan = {2}, .send = true}});
  EXPECT_EQ(seen<SendAnswer>().size(), 0U);
  connect_and_join({.pending_plan = {2}});
  receive(Settle{.run = {5}, .plan = {2}, .resend = true});
  EXPECT_EQ(seen<LoadAnswer>().size(), 1U);
  feed(AnswerLoaded{.answer = Answer{.run = {5}, .plan = {2}, .send = true}});
  EXPECT_EQ(seen<SendAnswer>().size(), 1U);
}

TEST_F(SessionTest, AsksForAWholeModelWhenItsOwnDoesNotLeadToTheBase) {
  connect_and_join({.has_model = true, .version = {8}});
  receive(plan(2));
  forget();
  feed(Executed{.run = {5}, .plan = {2}, .needs_model = true, .held = {.has_model = true, .version = {8}}});
  EXPECT_FALSE(sent<Accept>().front().has_model);
}

TEST_F(SessionTest, AsksForAWholeModelOnceAPlan) {
  connect_and_join();
  receive(plan(2));
  feed(Executed{.run = {5}, .plan = {2}, .needs_model = true});
  forget();
  receive(plan(2));
  feed(Executed{.run = {5}, .plan = {2}, .needs_model = true});
  EXPECT_EQ(sent<Accept>().size(), 0U) << "no circle without a pause";
  EXPECT_EQ(seen<StartReconnectTimer>().size(), 1U);
}

TEST_F(SessionTest, AnAnswerThatCannotBeStoredIsTriedAgainAndTheCoordinatorHearsWhy) {
  connect_and_join();
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    receive(plan(2));
    forget();
    feed(Executed{.run = {5}, .plan = {2}, .error = Error(ErrorCode::no_space, "the disk is full")});
    EXPECT_EQ(seen<Note>().size(), i == 0 ? 1U : 0U);
    EXPECT_NE(sent<Decline>().front().reason.find("the disk is full"), std::string::npos);
    EXPECT_EQ(seen<CloseConnection>().size(), 0U) << "it would look like flapping";
    const Duration wait = seen<StartReconnectTimer>().front().at_least;
    EXPECT_TRUE(wait > last || wait == std::chrono::minutes(5)) << i;
    last = wait;
    forget();
    feed(ReconnectTimer{});
    EXPECT_EQ(seen<OpenRun>().size(), 1U);
    feed(RunOpened{.run = {5}, .samples = 40, .schema_hash = 9});
    EXPECT_EQ(sent<Accept>().size(), 1U) << "so that the plan is sent again";
  }
  EXPECT_EQ(last, std::chrono::minutes(5));
  receive(plan(2));
  feed(Executed{.run = {5}, .plan = {2}, .answer = Answer{.run = {5}, .plan = {2}, .send = true}});
  EXPECT_EQ(seen<SendAnswer>().size(), 1U);
}

TEST_F(SessionTest, ANewerPlanOrConnectionOvertakesWhatIsTriedAgain) {
  connect_and_join();
  receive(plan(2));
  feed(Executed{.run = {5}, .plan = {2}, .error = Error(ErrorCode::no_space, "the disk is full")});
  receive(plan(3));
  forget();
  feed(ReconnectTimer{});
  EXPECT_TRUE(seen_.empty());
  feed(Executed{.run = {5}, .plan = {3}, .error = Error(ErrorCode::no_space, "the disk is full")});
  feed(Disconnected{Error(ErrorCode::retry, "gone")});
  feed(ReconnectTimer{});
  connect_and_join();
  forget();
  feed(ReconnectTimer{});
  EXPECT_TRUE(seen_.empty());
}

TEST_F(SessionTest, ARunThatCannotBeOpenedIsTriedAgain) {
  feed(Connected{});
  receive(Welcome{});
  receive(Offer{run_, {3}});
  for (int i = 0; i < 3; ++i) {
    forget();
    feed(RunOpened{.run = {5}, .error = Error(ErrorCode::corrupt, "its state is damaged")});
    EXPECT_EQ(sent<Decline>().size(), 1U);
    EXPECT_EQ(seen<Note>().size(), i == 0 ? 1U : 0U);
    feed(ReconnectTimer{});
    EXPECT_EQ(seen<OpenRun>().size(), 1U);
  }
  feed(RunOpened{.run = {5}, .samples = 40, .schema_hash = 9});
  EXPECT_EQ(sent<Accept>().size(), 1U);
}

TEST_F(SessionTest, AnAnswerThatIsGoneIsNotWaitedForInVain) {
  connect_and_join({.pending_plan = {2}});
  receive(Settle{.run = {5}, .plan = {2}, .resend = true});
  forget();
  feed(AnswerLoaded{});
  EXPECT_EQ(seen<StartReconnectTimer>().size(), 1U);
  feed(ReconnectTimer{});
  EXPECT_EQ(seen<OpenRun>().size(), 1U);
}

TEST_F(SessionTest, RefusalsDecideTheResidual) {
  connect_and_join();
  forget();
  receive(Refused{.plan = {2}, .code = RefusalCode::non_finite, .detail = ""});
  EXPECT_EQ(seen<SettlePlan>().back().outcome, Outcome::refused);
  receive(Refused{.plan = {2}, .code = RefusalCode::stale_plan, .detail = ""});
  EXPECT_EQ(seen<SettlePlan>().back().outcome, Outcome::stale);
  receive(Refused{.plan = {2}, .code = RefusalCode::quota, .detail = ""});
  EXPECT_EQ(seen<SettlePlan>().back().outcome, Outcome::quota);
}

TEST_F(SessionTest, ComesBackNoSoonerThanItWasAsked) {
  connect_and_join();
  receive(Superseded{.retry_after_ms = 1000});
  EXPECT_EQ(seen<CloseConnection>().size(), 1U);
  feed(Disconnected{Error(ErrorCode::retry, "closed")});
  EXPECT_EQ(seen<StartReconnectTimer>().back().at_least, std::chrono::minutes(1));
  feed(ReconnectTimer{});
  EXPECT_EQ(seen<Connect>().size(), 2U);
}

TEST_F(SessionTest, TheSameTroubleIsSaidOnce) {
  for (int i = 0; i < 5; ++i) feed(Disconnected{Error(ErrorCode::retry, "refused")});
  EXPECT_EQ(seen<Note>().size(), 1U);
  feed(Disconnected{Error(ErrorCode::retry, "expired")});
  EXPECT_EQ(seen<Note>().size(), 2U);
}

TEST_F(SessionTest, MessagesOutOfOrderEndTheConnection) {
  feed(Connected{});
  receive(Offer{run_, {3}});
  EXPECT_EQ(seen<CloseConnection>().size(), 1U);
  EXPECT_EQ(seen<OpenRun>().size(), 0U);
}

TEST_F(SessionTest, AnEndedRunIsClosed) {
  connect_and_join();
  receive(RunEnded{{5}});
  EXPECT_EQ(seen<CloseRun>().size(), 1U);
}

}  // namespace
}  // namespace gleaner::session
