// The state file: "GLNRDEV1", u64 run, u64 lineage, u8 has_model, u32 version, u64 model hash, u32 dimension, model
// floats (when there is one), varint length and bytes of DeviceMemory, varint count and floats of the rule's state, u8
// ever_sent, u32 last_sent_round, u64 zeroed, u8 answer (0 none, 1 update, 2 skip) and its fields, u64 XXH3-64 of all
// before it.

#include "client/engine/device_run.hpp"
#include "common/bytes.hpp"
#include "common/hash.hpp"
#include "common/text.hpp"

namespace gleaner {
namespace {

constexpr std::string_view kMagic = "GLNRDEV1";

void put_answer(ByteWriter& out, const std::optional<session::Answer>& answer) {
  out.put<std::uint8_t>(!answer ? 0 : answer->send ? 1 : 2);
  if (!answer) return;
  out.put(answer->plan.value);
  out.put(answer->digest.value);
  out.put(answer->samples);
  out.put(answer->compute_ms);
  out.put(answer->left);
  out.put(answer->right);
  out.put(answer->loss);
  const Bytes none;
  const Bytes& payload = answer->payload ? *answer->payload : none;
  out.put_varint(payload.size());
  out.put_bytes(payload);
}

Result<std::optional<session::Answer>> get_answer(ByteReader& in, RunId run) {
  const auto kind = in.get<std::uint8_t>();
  if (kind > 2) return fail(ErrorCode::corrupt, "an answer of an unknown kind");
  if (kind == 0) return std::nullopt;
  session::Answer answer{.run = run, .send = kind == 1};
  answer.plan.value = in.get<std::uint64_t>();
  answer.digest.value = in.get<std::uint64_t>();
  answer.samples = in.get<std::uint32_t>();
  answer.compute_ms = in.get<std::uint32_t>();
  answer.left = in.get<float>();
  answer.right = in.get<float>();
  answer.loss = in.get<float>();
  const ByteView payload = in.get_bytes(in.get_varint());
  answer.payload = std::make_shared<const Bytes>(payload.begin(), payload.end());
  return answer;
}

Result<std::vector<float>> get_floats(ByteReader& in, std::uint64_t count) {
  if (count > in.remaining() / sizeof(float)) return fail(ErrorCode::corrupt, "it ends early");
  std::vector<float> values(count);
  const ByteView bytes = in.get_bytes(count * sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

Bytes to_bytes(const DeviceState& state, RunId run) {
  Bytes bytes;
  // The state is some megabytes: it is written once, and never moved for want of room.
  const std::size_t payload_bytes = state.answer && state.answer->payload ? state.answer->payload->size() : 0;
  bytes.reserve((state.model.size() + state.rule_state.size()) * sizeof(float) + state.memory->size_bytes() +
                payload_bytes + 256);
  ByteWriter out(bytes);
  out.put_bytes(as_bytes(kMagic));
  out.put(run.value);
  out.put(state.lineage.value);
  out.put<std::uint8_t>(state.has_model ? 1 : 0);
  out.put(state.version.value);
  out.put(state.model_hash);
  out.put(static_cast<std::uint32_t>(state.memory->dimension()));
  if (state.has_model) out.put_array(std::span<const float>(state.model));
  out.put_varint(state.memory->size_bytes());
  state.memory->append_to(bytes);
  out.put_varint(state.rule_state.size());
  out.put_array(std::span<const float>(state.rule_state));
  out.put<std::uint8_t>(state.ever_sent ? 1 : 0);
  out.put(state.last_sent_round);
  out.put(state.zeroed_coordinates);
  put_answer(out, state.answer);
  out.put(digest_of(bytes).value);
  return bytes;
}

Result<StateSummary> summary_of_state(ByteView bytes) {
  ByteReader in(bytes);
  if (as_text(in.get_bytes(kMagic.size())) != kMagic)
    return fail(ErrorCode::corrupt, "it is not a state file of this release");
  StateSummary summary;
  in.get<std::uint64_t>();  // run
  summary.held.lineage.value = in.get<std::uint64_t>();
  summary.held.has_model = in.get<std::uint8_t>() != 0;
  summary.held.version.value = in.get<std::uint32_t>();
  summary.held.model_hash = in.get<std::uint64_t>();
  const std::uint64_t dimension = in.get<std::uint32_t>();
  if (summary.held.has_model) in.get_bytes(dimension * sizeof(float));
  in.get_bytes(in.get_varint());
  const std::uint64_t rule_floats = in.get_varint();
  if (rule_floats > in.remaining() / sizeof(float)) return fail(ErrorCode::corrupt, "it ends early");
  in.get_bytes(rule_floats * sizeof(float));
  in.get<std::uint8_t>();   // ever_sent
  in.get<std::uint32_t>();  // last_sent_round
  in.get<std::uint64_t>();  // zeroed
  const auto kind = in.get<std::uint8_t>();
  if (kind != 0) {
    summary.answered.value = in.get<std::uint64_t>();
    if (kind == 1) {
      summary.held.pending_plan = summary.answered;
      summary.held.pending_digest.value = in.get<std::uint64_t>();
    }
  }
  if (!in.ok() || kind > 2) return fail(ErrorCode::corrupt, "it ends early");
  return summary;
}

Result<DeviceState> device_state_from(ByteView bytes, RunId run, MemoryKind memory, std::uint32_t dimension) {
  if (bytes.size() < sizeof(std::uint64_t)) return fail(ErrorCode::corrupt, "it is too short");
  ByteReader check(bytes.last(sizeof(std::uint64_t)));
  const ByteView content = bytes.first(bytes.size() - sizeof(std::uint64_t));
  if (digest_of(content).value != check.get<std::uint64_t>())
    return fail(ErrorCode::corrupt, "its checksum does not match");
  ByteReader in(content);
  if (as_text(in.get_bytes(kMagic.size())) != kMagic)
    return fail(ErrorCode::corrupt, "it is not a state file of this release");
  if (in.get<std::uint64_t>() != run.value) return fail(ErrorCode::corrupt, "it belongs to another run");
  DeviceState state;
  state.lineage.value = in.get<std::uint64_t>();
  state.has_model = in.get<std::uint8_t>() != 0;
  state.version.value = in.get<std::uint32_t>();
  state.model_hash = in.get<std::uint64_t>();
  if (in.get<std::uint32_t>() != dimension) return fail(ErrorCode::corrupt, "its model has another size");
  GLEANER_ASSIGN(state.model, get_floats(in, state.has_model ? dimension : 0));
  GLEANER_ASSIGN(auto remembered, DeviceMemory::from_bytes(in.get_bytes(in.get_varint()), memory, dimension));
  state.memory = std::move(remembered);
  GLEANER_ASSIGN(state.rule_state, get_floats(in, in.get_varint()));
  state.ever_sent = in.get<std::uint8_t>() != 0;
  state.last_sent_round = in.get<std::uint32_t>();
  state.zeroed_coordinates = in.get<std::uint64_t>();
  GLEANER_ASSIGN(state.answer, get_answer(in, run));
  if (!in.ok() || !in.at_end()) return fail(ErrorCode::corrupt, "its length does not match its content");
  return state;
}

}  // namespace gleaner
