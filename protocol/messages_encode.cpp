#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.hpp"
#include "protocol/messages.hpp"
#include "protocol/messages_generated.h"
#include "protocol/wire.hpp"

namespace gleaner {
namespace {

static_assert(sizeof(wire::SettleBody) == wire::kSettleBytes);
static_assert(sizeof(wire::PlanHead) == wire::kPlanHeadBytes);
static_assert(sizeof(wire::SyncChunkHead) == wire::kSyncChunkHeadBytes);
static_assert(sizeof(wire::UpdateHead) == kUpdateHeadBytes);
static_assert(sizeof(wire::SkipBody) == wire::kSkipBytes);
static_assert(sizeof(wire::ReceivedBody) == wire::kReceivedBytes);

// What a diverged device reports must not break the protocol: it becomes the largest finite number.
float finite(float value) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return std::isnan(value) ? kMax : std::clamp(value, -kMax, kMax);
}

using Builder = flatbuffers::FlatBufferBuilder;
using Text = flatbuffers::Offset<flatbuffers::String>;

// One encoder per alternative of Message: the frame's body, without its header.
class Encoder {
 public:
  explicit Encoder(std::uint8_t type) : type_(type) {}

  Bytes operator()(const Hello& m) {
    const auto software = sentence(m.software, wire::kTitleBytesMax);
    const auto capabilities = names(m.capabilities);
    return table(wire::CreateHello(builder_, m.version_min, m.version_max, m.cores, software, capabilities));
  }
  Bytes operator()(const Welcome& m) {
    return table(wire::CreateWelcome(builder_, m.version, m.heartbeat_ms, names(m.capabilities)));
  }
  Bytes operator()(const Offer& m) { return table(wire::CreateOffer(builder_, m.lineage.value, run_spec(m.spec))); }
  Bytes operator()(const Accept& m) {
    return table(wire::CreateAccept(builder_, m.run.value, m.samples, m.schema_hash, m.has_model, m.lineage.value,
                                    m.version.value, m.model_hash, m.pending_plan.value, m.pending_digest.value));
  }
  Bytes operator()(const Decline& m) {
    return table(wire::CreateDecline(builder_, m.run.value, sentence(m.reason, wire::kTextBytesMax)));
  }
  Bytes operator()(const Settle& m) {
    return naked(wire::SettleBody(m.run.value, m.plan.value, static_cast<std::uint8_t>(m.outcome),
                                  static_cast<std::uint8_t>(m.resend), 0, 0),
                 {});
  }
  Bytes operator()(const Plan& m) {
    const wire::PlanHead head(m.run.value, m.id.value, m.base_hash, m.lineage.value, m.settled_plan.value, m.sync_bytes,
                              m.round, m.base.value, m.entries_max, m.deadline_ms, m.steps_max, m.threshold,
                              m.patch_clip, m.sync_from.value, static_cast<std::uint8_t>(m.settled_outcome),
                              static_cast<std::uint8_t>(m.sync), 0, 0);
    return naked(head, m.sync_head);
  }
  Bytes operator()(const SyncChunk& m) { return naked(wire::SyncChunkHead(m.plan.value, m.offset), m.bytes); }
  Bytes operator()(const Update& m) {
    const wire::UpdateHead head(m.plan.value, m.digest.value, m.samples, m.total_bytes, m.offset, m.compute_ms,
                                finite(m.left), finite(m.right), finite(m.loss), 0);
    return naked(head, m.bytes);
  }
  Bytes operator()(const Skip& m) {
    return naked(
        wire::SkipBody(m.plan.value, m.samples, m.compute_ms, finite(m.left), finite(m.right), finite(m.loss), 0), {});
  }
  Bytes operator()(const Received& m) { return naked(wire::ReceivedBody(m.plan.value, m.offset, 0), {}); }
  Bytes operator()(const Refused& m) {
    return table(wire::CreateRefused(builder_, m.plan.value, static_cast<std::uint8_t>(m.code),
                                     sentence(m.detail, wire::kTextBytesMax)));
  }
  Bytes operator()(const Heartbeat&) { return frame({}, {}); }
  Bytes operator()(const Drain& m) { return table(wire::CreateDrain(builder_, m.retry_after_ms)); }
  Bytes operator()(const Superseded& m) { return table(wire::CreateSuperseded(builder_, m.retry_after_ms)); }
  Bytes operator()(const RunEnded& m) { return table(wire::CreateRunEnded(builder_, m.run.value)); }
  Bytes operator()(const Failure& m) {
    return table(wire::CreateFailure(builder_, static_cast<std::uint8_t>(m.code), m.retry_after_ms,
                                     sentence(m.text, wire::kTextBytesMax)));
  }

 private:
  Text sentence(const std::string& text, std::size_t bytes_max) {
    return builder_.CreateString(wire::printable(text, bytes_max));
  }
  Text text(const std::string& text) { return builder_.CreateString(text); }

  flatbuffers::Offset<flatbuffers::Vector<Text>> names(const std::vector<std::string>& names) {
    GLEANER_CHECK(names.size() <= wire::kCapabilitiesMax);
    std::vector<Text> texts;
    for (const std::string& name : names) {
      GLEANER_CHECK(is_valid_name(name));
      texts.push_back(text(name));
    }
    return builder_.CreateVector(texts);
  }

  flatbuffers::Offset<wire::RunSpec> run_spec(const RunSpec& s) {
    GLEANER_CHECK(check_run_spec(s).has_value());
    const auto name = text(s.name);
    const auto recipe = text(s.recipe);
    const auto data = text(s.data);
    const auto model = text(s.model);
    const auto compressor = text(s.compressor);
    const auto value_format_up = text(s.value_format_up);
    const auto upload_rule = text(s.upload_rule);
    return wire::CreateRunSpec(builder_, s.id.value, name, recipe, s.seed, s.reproducible, data, model, s.hidden_units,
                               s.schema_hash, s.dimension, s.local_epochs, s.batch_size, s.learning_rate, s.momentum,
                               s.weight_decay, compressor, s.per_tensor, value_format_up, upload_rule, s.skip_share,
                               s.age_max, s.c0, s.rule_history, s.zeta, s.clip_exponent, s.classes);
  }

  template <class T>
  Bytes table(flatbuffers::Offset<T> root) {
    builder_.Finish(root);
    return frame(std::as_bytes(std::span(builder_.GetBufferPointer(), builder_.GetSize())), {});
  }
  template <class T>
  Bytes naked(const T& head, ByteView tail) {
    return frame(std::as_bytes(std::span(&head, 1)), tail);
  }

  Bytes frame(ByteView head, ByteView tail) const {
    const wire::FrameRule& rule = wire::kFrameRules[type_ - 1U];
    const std::size_t body_bytes = head.size() + tail.size();
    GLEANER_CHECK(tail.size() <= kChunkBytesMax && body_bytes >= rule.body_bytes_min &&
                  body_bytes <= rule.body_bytes_max);
    Bytes out;
    out.reserve(FrameHeader::kBytes + body_bytes);
    ByteWriter writer(out);
    writer.put(static_cast<std::uint32_t>(body_bytes));
    writer.put(type_);
    writer.put_bytes(head);
    writer.put_bytes(tail);
    return out;
  }

  std::uint8_t type_;
  Builder builder_{512};
};

}  // namespace

Bytes encode_frame(const Message& message) {
  return std::visit(Encoder(static_cast<std::uint8_t>(message.index() + 1)), message);
}

}  // namespace gleaner
