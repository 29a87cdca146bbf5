#pragma once
// Messages with random valid content, and what to compare them by.

#include <string>
#include <tuple>
#include <vector>

#include "common/random.hpp"
#include "protocol/messages.hpp"

namespace gleaner::testing {

// A valid message of alternative `index`. Views in it point into `bytes`.
Message random_message(std::size_t index, Random& random, Bytes& bytes);

inline std::vector<std::byte> owned(ByteView view) { return {view.begin(), view.end()}; }

inline auto fields(const Hello& m) {
  return std::tuple(m.version_min, m.version_max, m.software, m.capabilities, m.cores);
}
inline auto fields(const Welcome& m) { return std::tuple(m.version, m.heartbeat_ms, m.capabilities); }
inline auto fields(const Offer& m) { return std::tuple(m.spec, m.lineage); }
inline auto fields(const Accept& m) {
  return std::tuple(m.run, m.samples, m.schema_hash, m.has_model, m.lineage, m.version, m.model_hash, m.pending_plan,
                    m.pending_digest);
}
inline auto fields(const Decline& m) { return std::tuple(m.run, m.reason); }
inline auto fields(const Settle& m) { return std::tuple(m.run, m.plan, m.outcome, m.resend); }
inline auto fields(const Plan& m) {
  return std::tuple(std::tuple(m.run, m.id, m.round, m.base, m.base_hash, m.lineage, m.entries_max, m.deadline_ms),
                    std::tuple(m.steps_max, m.threshold, m.patch_clip, m.settled_plan, m.settled_outcome, m.sync,
                               m.sync_from, m.sync_bytes, owned(m.sync_head)));
}
inline auto fields(const SyncChunk& m) { return std::tuple(m.plan, m.offset, owned(m.bytes)); }
inline auto fields(const Update& m) {
  return std::tuple(m.plan, m.digest, m.samples, m.total_bytes, m.offset, m.compute_ms, m.left, m.right, m.loss,
                    owned(m.bytes));
}
inline auto fields(const Skip& m) { return std::tuple(m.plan, m.samples, m.compute_ms, m.left, m.right, m.loss); }
inline auto fields(const Received& m) { return std::tuple(m.plan, m.offset); }
inline auto fields(const Refused& m) { return std::tuple(m.plan, m.code, m.detail); }
inline auto fields(const Heartbeat&) { return std::tuple(); }
inline auto fields(const Drain& m) { return std::tuple(m.retry_after_ms); }
inline auto fields(const Superseded& m) { return std::tuple(m.retry_after_ms); }
inline auto fields(const RunEnded& m) { return std::tuple(m.run); }
inline auto fields(const Failure& m) { return std::tuple(m.code, m.retry_after_ms, m.text); }

inline bool same(const Message& a, const Message& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& left) { return fields(left) == fields(std::get<std::decay_t<decltype(left)>>(b)); }, a);
}

// Who may send alternative `index`.
inline Sender sender_of(std::size_t index) {
  const Message hello = Hello{}, accept = Accept{}, decline = Decline{}, update = Update{}, skip = Skip{};
  for (const Message* m : {&hello, &accept, &decline, &update, &skip}) {
    if (m->index() == index) return Sender::device;
  }
  return Sender::coordinator;
}

}  // namespace gleaner::testing
