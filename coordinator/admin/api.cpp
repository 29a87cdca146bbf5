#include "coordinator/admin/api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/log.hpp"
#include "coordinator/admin/codes.hpp"
#include "coordinator/admin/json.hpp"
#include "coordinator/admin/page.hpp"
#include "coordinator/admin/pending.hpp"
#include "coordinator/admin/safetensors.hpp"
#include "coordinator/admin/target.hpp"

namespace gleaner::admin {
namespace {

namespace asio = boost::asio;

constexpr std::uint32_t kRoundsDefault = 10;
constexpr std::uint32_t kRoundsMax = 100'000;
constexpr std::uint32_t kAuditDefault = 50;
constexpr std::uint32_t kAuditMax = 10'000;
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kPageType = "text/html; charset=utf-8";
constexpr Duration kGlanceTimeout = std::chrono::seconds(5);

struct Request {
  Call call;
  Target target;
  std::string name;  // of the run or device in the path
};

template <class T>
Pending<T> pending_for(const Request& request) {
  return {request.call.loop, request.call.answer_timeout};
}

Reply json_reply(std::string body) { return {.body = std::move(body)}; }

template <class T>
Reply reply_of(const Result<T>& result) {
  return result ? json_reply(to_json(*result)) : error_reply(result.error());
}

Reply reply_of(const Status& status) { return status ? json_reply("{}\n") : error_reply(status.error()); }

// A file on the coordinator's machine, so that only a path from the root means the same to both sides.
Result<std::string> absolute_path(const Target& target) {
  const auto found = target.query.find("path");
  if (found == target.query.end() || !found->second.starts_with('/')) {
    return fail(ErrorCode::bad_input, "the query needs path=FILE with an absolute path");
  }
  return found->second;
}

asio::awaitable<Reply> list_runs(Request request) {
  auto pending = pending_for<std::vector<RunStatus>>(request);
  request.call.backend->list_runs(pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> show_run(Request request) {
  const auto rounds = count_in(request.target, "rounds", kRoundsDefault, kRoundsMax);
  if (!rounds) co_return error_reply(rounds.error());
  auto pending = pending_for<RunDetail>(request);
  request.call.backend->show_run(request.name, *rounds, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> start_run(Request request) {
  const auto path = absolute_path(request.target);
  if (!path) co_return error_reply(path.error());
  if (request.call.body.empty()) {
    const Error empty(ErrorCode::bad_input, "the request's body is empty, expected the text of the run's file");
    co_return error_reply(empty);
  }
  auto pending = pending_for<RunStatus>(request);
  request.call.backend->start_run(request.call.actor, request.call.body, *path, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> pause_run(Request request) {
  auto pending = pending_for<RunStatus>(request);
  request.call.backend->pause_run(request.call.actor, request.name, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> resume_run(Request request) {
  auto pending = pending_for<RunStatus>(request);
  request.call.backend->resume_run(request.call.actor, request.name, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> stop_run(Request request) {
  auto pending = pending_for<RunStatus>(request);
  request.call.backend->stop_run(request.call.actor, request.name, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> export_run(Request request) {
  auto pending = pending_for<ExportedModel>(request);
  request.call.backend->export_run(request.name, pending.done());
  auto model = co_await pending.wait();
  if (!model) co_return error_reply(model.error());
  auto header = safetensors_header(*model);
  if (!header) co_return error_reply(header.error());
  Reply reply;
  reply.content_type = "application/octet-stream";
  reply.body = std::move(*header);
  reply.model = std::make_shared<const ExportedModel>(std::move(*model));
  co_return reply;
}

asio::awaitable<Reply> list_devices(Request request) {
  auto pending = pending_for<std::vector<DeviceStatus>>(request);
  request.call.backend->list_devices(pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> revoke_device(Request request) {
  const auto unseen = count_in(request.target, "unseen", 0, 1);
  if (!unseen) co_return error_reply(unseen.error());
  auto pending = pending_for<void>(request);
  request.call.backend->revoke_device(request.call.actor, request.name,
                                      *unseen == 1 ? Database::Unseen::add : Database::Unseen::refuse, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> allow_device(Request request) {
  auto pending = pending_for<void>(request);
  request.call.backend->allow_device(request.call.actor, request.name, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> back_up(Request request) {
  const auto path = absolute_path(request.target);
  if (!path) co_return error_reply(path.error());
  auto pending = pending_for<void>(request);
  request.call.backend->backup(request.call.actor, *path, pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> check_database(Request request) {
  auto pending = pending_for<void>(request);
  request.call.backend->check_database(pending.done());
  co_return reply_of(co_await pending.wait());
}

asio::awaitable<Reply> show_audit(Request request) {
  const auto count = count_in(request.target, "count", kAuditDefault, kAuditMax);
  if (!count) co_return error_reply(count.error());
  auto pending = pending_for<std::vector<std::string>>(request);
  request.call.backend->audit_log(*count, pending.done());
  const auto entries = co_await pending.wait();
  co_return entries ? json_reply(audit_to_json(*entries)) : error_reply(entries.error());
}

// Whoever scrapes or looks gives up soon; only an operator waits for a large database.
Duration glance(const Request& request) { return std::min(request.call.answer_timeout, kGlanceTimeout); }

asio::awaitable<Reply> show_metrics(Request request) {
  Pending<std::string> pending(request.call.loop, glance(request));
  request.call.backend->metrics(pending.done());
  auto text = co_await pending.wait();
  if (!text) co_return error_reply(text.error());
  co_return Reply{.content_type = std::string(kMetricsType), .body = std::move(*text)};
}

asio::awaitable<Reply> show_page(Request request) {
  Pending<Overview> pending(request.call.loop, glance(request));
  request.call.backend->overview(pending.done());
  const auto seen = co_await pending.wait();
  if (!seen) co_return error_reply(seen.error());
  co_return Reply{.content_type = std::string(kPageType), .body = to_html(*seen)};
}

// Whoever restarts what is not well must not restart a coordinator because its disk is full: that answer is 200.
asio::awaitable<Reply> show_health(Request request) { co_return json_reply(to_json(request.call.backend->health())); }

asio::awaitable<Reply> show_readiness(Request request) {
  const Health health = request.call.backend->health();
  co_return Reply{.status = health.suspended ? 503U : 200U, .body = to_json(health)};
}

struct Route {
  std::string_view method;
  std::vector<std::string> segments;  // "*": a name
  std::vector<std::string> query;
  asio::awaitable<Reply> (*answer)(Request);
  bool for_anybody = false;
};

const std::vector<Route>& routes() {
  static const std::vector<Route> table = {
      {"GET", {"v1", "runs"}, {}, list_runs},
      {"POST", {"v1", "runs"}, {"path"}, start_run},
      {"GET", {"v1", "runs", "*"}, {"rounds"}, show_run},
      {"POST", {"v1", "runs", "*", "pause"}, {}, pause_run},
      {"POST", {"v1", "runs", "*", "resume"}, {}, resume_run},
      {"POST", {"v1", "runs", "*", "stop"}, {}, stop_run},
      {"GET", {"v1", "runs", "*", "model"}, {}, export_run},
      {"GET", {"v1", "devices"}, {}, list_devices},
      {"POST", {"v1", "devices", "*", "revoke"}, {"unseen"}, revoke_device},
      {"POST", {"v1", "devices", "*", "allow"}, {}, allow_device},
      {"POST", {"v1", "database", "backup"}, {"path"}, back_up},
      {"POST", {"v1", "database", "check"}, {}, check_database},
      {"GET", {"v1", "audit"}, {"count"}, show_audit},
      {"GET", {}, {}, show_page, true},
      {"GET", {"metrics"}, {}, show_metrics, true},
      {"GET", {"healthz"}, {}, show_health, true},
      {"GET", {"readyz"}, {}, show_readiness, true},
  };
  return table;
}

bool matches(const Route& route, const std::vector<std::string>& segments) {
  return std::ranges::equal(route.segments, segments, [](const std::string& pattern, const std::string& segment) {
    return pattern == "*" || pattern == segment;
  });
}

std::string name_in(const Route& route, const std::vector<std::string>& segments) {
  const auto star = std::ranges::find(route.segments, "*");
  return star == route.segments.end() ? "" : segments[static_cast<std::size_t>(star - route.segments.begin())];
}

Reply no_such_method(const std::string& method, const std::string& target) {
  const Error error(ErrorCode::bad_input, fmt::format("{} cannot be asked of {}", method, target));
  Reply reply = error_reply(error);
  reply.status = 405;
  return reply;
}

Reply no_such_target(const std::string& target) {
  return error_reply(Error(ErrorCode::not_found, fmt::format("nothing is served at {}", target)));
}

// A HEAD is answered like a GET; the body is left out when it is written.
std::string_view method_of(const Call& call) { return call.method == "HEAD" ? "GET" : std::string_view(call.method); }

asio::awaitable<Reply> at_once(Reply reply) { co_return reply; }

enum class Audience { operator_, anybody };

asio::awaitable<Reply> route(Call call, Audience audience) {
  auto target = parse_target(call.target);
  if (!target) return at_once(error_reply(target.error()));
  bool other_method = false;
  for (const Route& known : routes()) {
    if ((audience == Audience::anybody && !known.for_anybody) || !matches(known, target->segments)) continue;
    if (known.method != method_of(call)) {
      other_method = true;
      continue;
    }
    if (const Status keys = check_query(*target, known.query); !keys) return at_once(error_reply(keys.error()));
    std::string name = name_in(known, target->segments);
    if (!name.empty() && !is_valid_name(name)) {
      return at_once(error_reply(Error(ErrorCode::not_found, fmt::format("'{}' is no name of a run or device", name))));
    }
    return known.answer(Request{std::move(call), std::move(*target), std::move(name)});
  }
  return at_once(other_method ? no_such_method(call.method, call.target) : no_such_target(call.target));
}

}  // namespace

Reply error_reply(const Error& error) { return {.status = row_of(error.code()).http_status, .body = to_json(error)}; }

asio::awaitable<Reply> answer_operator(Call call) { return route(std::move(call), Audience::operator_); }

asio::awaitable<Reply> answer_public(Call call) { return route(std::move(call), Audience::anybody); }

}  // namespace gleaner::admin
