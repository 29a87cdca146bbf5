#include "simulation/world/job.hpp"

#include <gtest/gtest.h>

namespace gleaner::simulation {
namespace {

std::shared_ptr<const Bytes> bytes_of(std::size_t count, int value) {
  return std::make_shared<const Bytes>(count, static_cast<std::byte>(value));
}

JobRequest request() {
  JobRequest request{.device = 77};
  request.plan = {
      .run = {42}, .id = {9}, .round = 3, .base = {2}, .base_hash = 1234, .lineage = {7}, .entries_max = 50};
  request.plan.settled_plan = {5};
  request.plan.settled_outcome = Outcome::included;
  request.plan.sync = SyncKind::patches;
  request.plan.sync_from = {1};
  request.plan.sync_bytes = 300;
  request.sync = bytes_of(300, 3);
  request.settled = {{{5}, Outcome::included}, {{6}, Outcome::stale}};
  request.began = {std::chrono::seconds(12)};
  request.takes = std::chrono::milliseconds(250);
  request.disk_is_full = true;
  request.wants_update = true;
  request.state = bytes_of(1'000, 9);
  return request;
}

JobReply reply() {
  session::Answer answer{.run = {42}, .plan = {9}, .send = true, .digest = {99}, .payload = bytes_of(40, 1)};
  answer.samples = 10;
  answer.compute_ms = 250;
  answer.left = 1.5F;
  answer.right = -2.0F;
  answer.loss = 0.25F;
  session::Executed done{.run = {42}, .plan = {9}, .answer = answer, .error = Error(ErrorCode::no_space, "full")};
  done.held = {.has_model = true, .lineage = {7}, .version = {2}, .model_hash = 5, .pending_plan = {9}};
  return {.error = std::nullopt, .done = done, .saved = bytes_of(500, 2), .update = {1.0F, -2.0F}};
}

TEST(JobWire, ARequestComesBackWhole) {
  const JobRequest sent = request();
  const auto got = decode_request(encode_request(sent));
  ASSERT_TRUE(got.has_value()) << got.error().message();
  EXPECT_EQ(encode_request(*got), encode_request(sent));
  EXPECT_EQ(got->device, 77U);
  EXPECT_EQ(got->plan.base_hash, 1234U);
  EXPECT_EQ(got->plan.sync_bytes, 300U);
  EXPECT_EQ(*got->sync, *sent.sync);
  EXPECT_EQ(got->settled.size(), 2U);
  EXPECT_EQ(got->takes, sent.takes);
  EXPECT_TRUE(got->disk_is_full);
}

TEST(JobWire, AReplyComesBackWhole) {
  const JobReply sent = reply();
  const auto got = decode_reply(encode_reply(sent));
  ASSERT_TRUE(got.has_value()) << got.error().message();
  EXPECT_EQ(encode_reply(*got), encode_reply(sent));
  EXPECT_EQ(got->done->answer->loss, 0.25F);
  EXPECT_EQ(got->done->error->message(), "full");
  EXPECT_EQ(*got->saved, *sent.saved);
  EXPECT_EQ(got->update, sent.update);
}

TEST(JobWire, WhatIsCutShortIsAnError) {
  const Bytes whole_request = encode_request(request());
  for (std::size_t length = 0; length < whole_request.size(); ++length)
    EXPECT_FALSE(decode_request(ByteView(whole_request).first(length)).has_value()) << length;
  const Bytes whole_reply = encode_reply(reply());
  for (std::size_t length = 0; length < whole_reply.size(); ++length)
    EXPECT_FALSE(decode_reply(ByteView(whole_reply).first(length)).has_value()) << length;
}

}  // namespace
}  // namespace gleaner::simulation
