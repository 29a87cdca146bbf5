#pragma once
// The routes: a request in, a reply out. What a reply needs of the backend is awaited; nothing is written here.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "common/clock.hpp"
#include "coordinator/admin/backend.hpp"

namespace gleaner::admin {

struct Reply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::shared_ptr<const ExportedModel> model;  // its parameters follow the body
};

Reply error_reply(const Error& error);

struct Call {
  std::string method;  // "GET"
  std::string target;  // "/v1/runs?..."
  std::string body;
  std::string actor;
  AdminBackend* backend = nullptr;  // used only before the first suspension
  boost::asio::any_io_executor loop;
  Duration answer_timeout{};
};

// Everything, for the operator.
boost::asio::awaitable<Reply> answer_operator(Call call);

// Metrics, health and the status page, for anybody.
boost::asio::awaitable<Reply> answer_public(Call call);

}  // namespace gleaner::admin
