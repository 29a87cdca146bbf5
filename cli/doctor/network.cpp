#include "cli/doctor/network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "cli/doctor/handshake.hpp"
#include "cli/doctor/listeners.hpp"
#include "common/descriptor.hpp"
#include "protocol/link/host_port.hpp"

namespace gleaner::cli {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int outcome = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (outcome != 0) return fail(ErrorCode::retry, fmt::format("{}: {}", host, ::gai_strerror(outcome)));
  return Addresses(found);
}

std::string address_text(const addrinfo& address) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  const int outcome = ::getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof(host), port, sizeof(port),
                                    NI_NUMERICHOST | NI_NUMERICSERV);
  return outcome == 0 ? std::string(host) : "an address";
}

// 0 when somebody may listen there, else the error number.
int try_to_bind(const addrinfo& address) {
  const Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return errno;
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return ::bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
}

// 0 when connected, else the error number.
int connect_within(int socket, const addrinfo& address, Duration timeout) {
  if (::connect(socket, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{socket, POLLOUT, 0};
  const auto timeout_ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  const int ready = ::poll(&waiting, 1, static_cast<int>(timeout_ms));
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  if (ready < 0 || ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

std::string advice_for(int error) {
  switch (error) {
    case ECONNREFUSED: return "nobody listens there: is the coordinator running, and is the port right?";
    case ETIMEDOUT: return "a firewall may drop the packets, or the address is wrong";
    case ENETUNREACH:
    case EHOSTUNREACH: return "this machine has no route there: check its network";
    default: return "check the coordinator's address and this machine's network";
  }
}

Descriptor reach(const addrinfo* addresses, const Way& way, Findings& findings) {
  int error = 0;
  std::string tried;
  for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.get() < 0) continue;
    error = connect_within(socket.get(), *at, way.timeout);
    if (error == 0) {
      findings.ok(fmt::format("{} is reached at {}", to_text(way.host, way.port), address_text(*at)));
      return socket;
    }
    tried += (tried.empty() ? "" : ", ") + address_text(*at);
  }
  findings.fail(
      fmt::format("{} is not reached (tried {}): {}", to_text(way.host, way.port), tried, std::strerror(error)),
      advice_for(error));
  return Descriptor(-1);
}

}  // namespace

void check_port(const std::string& what, const std::string& host, std::uint16_t port, InUse in_use,
                Findings& findings) {
  const std::string place = to_text(host, port);
  const auto addresses = resolve(host, port, AI_PASSIVE);
  if (!addresses)
    return findings.fail(fmt::format("{} = {}: {}", what, place, addresses.error().message()),
                         "name an address of this machine, or [::] for all of them");
  if (port == 0) return findings.ok(fmt::format("{} takes any free port of {}", what, host));
  const int error = try_to_bind(**addresses);
  if (error == 0) return findings.ok(fmt::format("{} = {} is free", what, place));
  if (error == EADDRINUSE) {
    const std::string who = listener_on(port);
    const std::string text = fmt::format("{} = {} is in use{}", what, place, who.empty() ? "" : " by " + who);
    if (in_use == InUse::fine) return findings.ok(text + ", while the coordinator answers");
    return findings.fail(text, "stop that program, or choose another port");
  }
  findings.fail(fmt::format("{} = {} cannot be listened on: {}", what, place, std::strerror(error)),
                error == EACCES ? "choose a port above 1023" : "name an address of this machine");
}

void check_way(const Way& way, Findings& findings) {
  const auto addresses = resolve(way.host, way.port, 0);
  if (!addresses) {
    return findings.fail(fmt::format("the coordinator's name cannot be resolved: {}", addresses.error().message()),
                         "check the host in the configuration and this machine's DNS");
  }
  const Descriptor socket = reach(addresses->get(), way, findings);
  if (socket.get() < 0) return;
  const Status shaken = try_handshake(socket.get(), way);
  if (!shaken) return findings.fail(shaken.error());
  findings.ok("TLS handshake: both sides accept each other's certificate");
}

}  // namespace gleaner::cli
