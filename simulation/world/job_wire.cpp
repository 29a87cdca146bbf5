// Jobs as bytes, in the order of their members. A plan travels as the frame that devices get.

#include <algorithm>

#include "protocol/aligned_buffer.hpp"
#include "simulation/world/job.hpp"

namespace gleaner::simulation {
namespace {

void put_bytes(ByteWriter& out, ByteView bytes) {
  out.put_varint(bytes.size());
  out.put_bytes(bytes);
}

void put_optional(ByteWriter& out, const std::shared_ptr<const Bytes>& bytes) {
  out.put<std::uint8_t>(bytes ? 1 : 0);
  if (bytes) put_bytes(out, *bytes);
}

std::shared_ptr<const Bytes> get_optional(ByteReader& in) {
  if (in.get<std::uint8_t>() == 0) return nullptr;
  const ByteView bytes = in.get_bytes(in.get_varint());
  return std::make_shared<const Bytes>(bytes.begin(), bytes.end());
}

void put_error(ByteWriter& out, const std::optional<Error>& error) {
  out.put<std::uint8_t>(error ? 1 : 0);
  if (!error) return;
  out.put(error->code());
  put_bytes(out, as_bytes(error->message()));
}

std::optional<Error> get_error(ByteReader& in) {
  if (in.get<std::uint8_t>() == 0) return std::nullopt;
  const auto code = in.get<ErrorCode>();
  return Error(code, std::string(as_text(in.get_bytes(in.get_varint()))));
}

void put_answer(ByteWriter& out, const std::optional<session::Answer>& answer) {
  out.put<std::uint8_t>(answer ? 1 : 0);
  if (!answer) return;
  out.put(answer->run);
  out.put(answer->plan);
  out.put<std::uint8_t>(answer->send ? 1 : 0);
  out.put(answer->digest);
  put_optional(out, answer->payload);
  out.put(answer->samples);
  out.put(answer->compute_ms);
  out.put(answer->left);
  out.put(answer->right);
  out.put(answer->loss);
}

std::optional<session::Answer> get_answer(ByteReader& in) {
  if (in.get<std::uint8_t>() == 0) return std::nullopt;
  session::Answer answer;
  answer.run = in.get<RunId>();
  answer.plan = in.get<PlanId>();
  answer.send = in.get<std::uint8_t>() != 0;
  answer.digest = in.get<Digest>();
  answer.payload = get_optional(in);
  answer.samples = in.get<std::uint32_t>();
  answer.compute_ms = in.get<std::uint32_t>();
  answer.left = in.get<float>();
  answer.right = in.get<float>();
  answer.loss = in.get<float>();
  return answer;
}

void put_held(ByteWriter& out, const session::Held& held) {
  out.put<std::uint8_t>(held.has_model ? 1 : 0);
  out.put(held.lineage);
  out.put(held.version);
  out.put(held.model_hash);
  out.put(held.pending_plan);
  out.put(held.pending_digest);
}

session::Held get_held(ByteReader& in) {
  session::Held held;
  held.has_model = in.get<std::uint8_t>() != 0;
  held.lineage = in.get<Lineage>();
  held.version = in.get<Version>();
  held.model_hash = in.get<std::uint64_t>();
  held.pending_plan = in.get<PlanId>();
  held.pending_digest = in.get<Digest>();
  return held;
}

Result<Plan> plan_of(ByteView frame) {
  if (frame.size() < FrameHeader::kBytes) return fail(ErrorCode::corrupt, "a job's plan is cut short");
  const auto header = decode_header(frame.first(FrameHeader::kBytes), Sender::coordinator);
  if (!header) return fail(header.error());
  const AlignedBuffer body = AlignedBuffer::copy_of(frame.subspan(FrameHeader::kBytes));
  GLEANER_ASSIGN(const Message message, decode_body(*header, body.view()));
  const auto* plan = std::get_if<Plan>(&message);
  if (plan == nullptr) return fail(ErrorCode::corrupt, "a job without a plan");
  Plan copy = *plan;
  copy.sync_head = {};
  return copy;
}

}  // namespace

Bytes encode_request(const JobRequest& request) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(request.device);
  Plan plan = request.plan;
  plan.sync_head = {};
  // The frame says how long its sync is and has none of it: as when it follows in chunks.
  put_bytes(out, encode_frame(plan));
  put_optional(out, request.sync);
  out.put_varint(request.settled.size());
  for (const Settled& settled : request.settled) {
    out.put(settled.plan);
    out.put(settled.outcome);
  }
  out.put(request.began);
  out.put(request.takes);
  out.put<std::uint8_t>(request.disk_is_full ? 1 : 0);
  out.put<std::uint8_t>(request.wants_update ? 1 : 0);
  put_optional(out, request.state);
  return bytes;
}

Result<JobRequest> decode_request(ByteView bytes) {
  ByteReader in(bytes);
  JobRequest request{.device = in.get<std::uint32_t>()};
  GLEANER_ASSIGN(request.plan, plan_of(in.get_bytes(in.get_varint())));
  request.sync = get_optional(in);
  for (std::uint64_t left = in.get_varint(); left > 0 && in.ok(); --left) {
    const auto plan = in.get<PlanId>();
    request.settled.push_back({plan, in.get<Outcome>()});
  }
  request.began = in.get<Instant>();
  request.takes = in.get<Duration>();
  request.disk_is_full = in.get<std::uint8_t>() != 0;
  request.wants_update = in.get<std::uint8_t>() != 0;
  request.state = get_optional(in);
  if (!in.ok() || !in.at_end()) return fail(ErrorCode::corrupt, "a job is cut short");
  return request;
}

Bytes encode_reply(const JobReply& reply) {
  Bytes bytes;
  ByteWriter out(bytes);
  put_error(out, reply.error);
  out.put<std::uint8_t>(reply.done ? 1 : 0);
  if (reply.done) {
    out.put(reply.done->run);
    out.put(reply.done->plan);
    put_answer(out, reply.done->answer);
    put_error(out, reply.done->error);
    out.put<std::uint8_t>(reply.done->needs_model ? 1 : 0);
    put_held(out, reply.done->held);
  }
  put_optional(out, reply.saved);
  out.put_varint(reply.update.size());
  out.put_array(std::span<const float>(reply.update));
  return bytes;
}

Result<JobReply> decode_reply(ByteView bytes) {
  ByteReader in(bytes);
  JobReply reply{.error = get_error(in)};
  if (in.get<std::uint8_t>() != 0) {
    session::Executed done{.run = in.get<RunId>()};
    done.plan = in.get<PlanId>();
    done.answer = get_answer(in);
    done.error = get_error(in);
    done.needs_model = in.get<std::uint8_t>() != 0;
    done.held = get_held(in);
    reply.done = std::move(done);
  }
  reply.saved = get_optional(in);
  const std::uint64_t floats = in.get_varint();
  if (!in.ok() || floats != in.remaining() / sizeof(float))
    return fail(ErrorCode::corrupt, "a job's reply is cut short");
  reply.update.resize(floats);
  const ByteView raw = in.get_bytes(floats * sizeof(float));
  if (!raw.empty()) std::memcpy(reply.update.data(), raw.data(), raw.size());
  if (!in.ok() || !in.at_end()) return fail(ErrorCode::corrupt, "a job's reply is cut short");
  return reply;
}

}  // namespace gleaner::simulation
