#pragma once
// The conversation, as plain structs. Bytes from a peer become one of these only through decode(): size limit,
// FlatBuffers verifier, then semantic checks. Views in a decoded message point into the frame's buffer, which must
// outlive them.
//
//   device                          coordinator
//   Hello                     ->
//                             <-    Welcome                    version chosen, heartbeat interval
//                             <-    Offer                      a run to take part in (again after a run starts)
//   Accept | Decline          ->                               samples, model held, pending plan
//                             <-    Settle                     outcome of the pending plan, or "send again"
//                             <-    Plan, SyncChunk...         work, the last outcome, and what leads to the base model
//   Update... | Skip          ->
//                             <-    Received | Refused
//   Heartbeat                 <->
//                             <-    Drain | Superseded | RunEnded | Failure

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/refusal.hpp"
#include "protocol/run_spec.hpp"

namespace gleaner {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::uint16_t kProtocolVersionMin = 1;
inline constexpr std::uint32_t kChunkBytesMax = 1U << 20;
inline constexpr std::uint32_t kUpdateHeadBytes = 48;  // of an Update's body, before its part of the payload

struct Hello {
  std::uint16_t version_min = kProtocolVersionMin;
  std::uint16_t version_max = kProtocolVersion;
  std::string software;                   // "gleaner-client 0.1.0"
  std::vector<std::string> capabilities;  // names the far side may ignore
  std::uint32_t cores = 1;
};

struct Welcome {
  std::uint16_t version = kProtocolVersion;
  std::uint32_t heartbeat_ms = 30'000;  // silence of three of these ends a connection
  std::vector<std::string> capabilities;
};

struct Offer {
  RunSpec spec;
  Lineage lineage;
};

struct Accept {
  RunId run;
  std::uint32_t samples = 0;  // the device's weight; 0 is legal and contributes nothing
  std::uint64_t schema_hash = 0;
  // What the device holds of this run; without a model everything is zero.
  bool has_model = false;
  Lineage lineage;
  Version version;
  std::uint64_t model_hash = 0;
  PlanId pending_plan;  // 0: none
  Digest pending_digest;
};

struct Decline {
  RunId run;
  std::string reason;
};

// What became of an earlier plan. resend: nothing is decided yet, send the pending update again from offset 0.
struct Settle {
  RunId run;
  PlanId plan;
  Outcome outcome = Outcome::unknown;
  bool resend = false;
};

// How a device gets from the model it holds to the plan's base.
enum class SyncKind : std::uint8_t {
  none = 0,      // it holds the base
  seeded = 1,    // version 0: made from the run's seed
  patches = 2,   // versions from+1 .. base, subtracted in order: u32 payload bytes, f32 clip (>= |u|), payload, each
  absolute = 3,  // newest f32 values of every coordinate changed since `from`: a payload of f32 values to be assigned
  snapshot = 4,  // the whole model: dimension f32 values
};

struct Plan {
  RunId run;
  PlanId id;
  std::uint32_t round = 0;  // counts attempts; the base version counts commits
  Version base;
  std::uint64_t base_hash = 0;
  Lineage lineage;
  std::uint32_t entries_max = 0;  // k: the grant
  std::uint32_t deadline_ms = 0;  // until the round closes, from receipt; 0 = none
  std::uint32_t steps_max = 0;    // bound on local steps; 0 = the run's epochs
  float threshold = 0.0F;         // of the upload rule
  float patch_clip = 0.0F;        // bound of |u| in patches
  PlanId settled_plan;            // 0: none
  Outcome settled_outcome = Outcome::unknown;
  SyncKind sync = SyncKind::none;
  Version sync_from;
  std::uint64_t sync_bytes = 0;  // total; what does not fit here follows in SyncChunks
  ByteView sync_head;
};

struct SyncChunk {
  PlanId plan;
  std::uint64_t offset = 0;
  ByteView bytes;
};

struct Update {
  PlanId plan;
  Digest digest;  // of the whole payload
  std::uint32_t samples = 0;
  std::uint32_t total_bytes = 0;
  std::uint32_t offset = 0;
  std::uint32_t compute_ms = 0;  // training and compression
  float left = 0.0F;             // both sides of the upload rule
  float right = 0.0F;
  float loss = 0.0F;
  ByteView bytes;
};

struct Skip {
  PlanId plan;
  std::uint32_t samples = 0;
  std::uint32_t compute_ms = 0;
  float left = 0.0F;
  float right = 0.0F;
  float loss = 0.0F;
};

struct Received {
  PlanId plan;
  std::uint32_t offset = 0;  // bytes held
};

struct Refused {
  PlanId plan;
  RefusalCode code = RefusalCode::none;
  std::string detail;
};

struct Heartbeat {};

struct Drain {  // the coordinator is going down: come back then
  std::uint32_t retry_after_ms = 0;
};

struct Superseded {  // a newer connection with the same certificate took over
  std::uint32_t retry_after_ms = 0;
};

struct RunEnded {
  RunId run;
};

enum class FailureCode : std::uint8_t {
  version_mismatch = 1,
  not_enrolled = 2,
  revoked = 3,
  protocol = 4,
  busy = 5,
  quarantined = 6
};

struct Failure {  // said before the connection is closed
  FailureCode code = FailureCode::protocol;
  std::uint32_t retry_after_ms = 0;
  std::string text;
};

using Message = std::variant<Hello, Welcome, Offer, Accept, Decline, Settle, Plan, SyncChunk, Update, Skip, Received,
                             Refused, Heartbeat, Drain, Superseded, RunEnded, Failure>;

// A frame is u32 body length, u8 type, body. The whole frame, ready to be written. Sentences for people (reason,
// detail, text, software) are cut to their limit, and the figures of an answer (left, right, loss) made finite;
// anything else beyond the limits of docs/protocol.md is a broken invariant.
Bytes encode_frame(const Message& message);

// The limits that a run must keep to be offered to devices; the error (bad_input) names the field.
Status check_run_spec(const RunSpec& spec);

struct FrameHeader {
  static constexpr std::size_t kBytes = 5;
  std::uint32_t body_bytes = 0;
  std::uint8_t type = 0;
};

// "Plan" for the type byte of a plan, "unknown" for an unused one.
std::string_view frame_name(std::uint8_t type);

// Checks the type and the size limit of that type before anything is allocated. from_device: which half of the types is
// legal.
enum class Sender { device, coordinator };
Result<FrameHeader> decode_header(std::span<const std::byte> header, Sender sender);

// body must be 8-byte aligned and outlive the views in the message. Errors are peer_fault and say which field is wrong.
Result<Message> decode_body(const FrameHeader& header, ByteView body);

// An Update by its first bytes alone, so that the receiver decides what to do with the payload before it holds any of
// it: what follows is header.body_bytes - kUpdateHeadBytes of it. The message's bytes are empty. Errors as above.
bool is_update(const FrameHeader& header);
bool is_heartbeat(std::uint8_t type);
Result<Update> decode_update_head(const FrameHeader& header, std::span<const std::byte, kUpdateHeadBytes> head);

}  // namespace gleaner
