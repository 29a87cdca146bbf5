#include "protocol/link/tls_context.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <csignal>
#include <map>
#include <mutex>

#include "common/clock.hpp"
#include "common/ids.hpp"
#include "common/text.hpp"
#include "protocol/link/tls_error.hpp"
#include "protocol/pki/read.hpp"

namespace gleaner {
namespace {

constexpr long kTicketSeconds = 3600;
constexpr std::size_t kSessionsMax = 16;  // kept per client context; a client talks to one coordinator or few
constexpr char kSessionContext[] = "gleaner";

using ContextHandle = std::unique_ptr<SSL_CTX, pki::Deleter<SSL_CTX_free>>;
using SessionHandle = std::unique_ptr<SSL_SESSION, pki::Deleter<SSL_SESSION_free>>;

bool is_ip(const std::string& text) {
  std::array<unsigned char, 16> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

// OpenSSL writes to sockets with write(): without this a connection cut by the far side would end the program.
void ignore_broken_pipes() {
  struct sigaction now{};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

Status check_own_names(const pki::CertificateFacts& facts, const TlsFiles& files, bool is_server) {
  if (is_server) {
    if (!facts.dns.empty() || !facts.ips.empty()) return {};
    return fail(ErrorCode::bad_input,
                fmt::format("{}: no coordinator's certificate: it carries neither a DNS name nor an IP address as a "
                            "subject alternative name. Issue one with the addresses that devices connect to",
                            files.certificate));
  }
  for (const std::string& uri : facts.uris) {
    if (uri.starts_with(pki::kDeviceUrn) || uri.starts_with(pki::kOperatorUrn)) return {};
  }
  return fail(ErrorCode::bad_input, fmt::format("{}: no device's or operator's certificate: it carries no {}NAME as a "
                                                "subject alternative name. Issue one with `gleaner pki issue NAME`",
                                                files.certificate, pki::kDeviceUrn));
}

Result<pki::CertificateFacts> check_files(const TlsFiles& files, bool is_server) {
  GLEANER_ASSIGN(pki::CertificateFacts facts, pki::inspect(files.certificate));
  GLEANER_TRY(pki::check_key_matches(files.certificate, files.key));
  GLEANER_TRY(pki::check_dates(facts, fmt::format("{}: the own certificate", files.certificate),
                               system_clock().wall_unix_ms() / 1000));
  GLEANER_TRY(pki::check_issued_by(files.certificate, files.ca));
  GLEANER_TRY(check_own_names(facts, files, is_server));
  return facts;
}

Status openssl(bool ok, std::string_view doing) {
  if (ok) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("TLS cannot be set up: {} failed: {}", doing, pki::take_openssl_reason()));
}

// Remembers why the far side's certificate is refused; the error queue only says that it was.
int on_verify(int ok, X509_STORE_CTX* store) {
  if (ok == 1) return 1;
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const connection = static_cast<TlsConnection*>(SSL_get_ex_data(ssl, 0));
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  if (connection != nullptr && !connection->failure) {
    connection->failure = std::make_unique<VerifyFailure>();
    connection->failure->error = X509_STORE_CTX_get_error(store);
    connection->failure->depth = X509_STORE_CTX_get_error_depth(store);
    if (certificate != nullptr) connection->failure->facts = pki::facts_of(certificate);
  }
  return 0;
}

Status set_server_name(SSL_CTX* context, const std::string& name) {
  X509_VERIFY_PARAM* const rules = SSL_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (is_ip(name)) return openssl(X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1, "naming the coordinator");
  return openssl(X509_VERIFY_PARAM_set1_host(rules, name.c_str(), name.size()) == 1, "naming the coordinator");
}

Status set_rules(SSL_CTX* context, bool is_server) {
  // No automatic chain: CAs are what both sides have, and a file with intermediates says so itself.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
  GLEANER_TRY(openssl(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                          SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1,
                      "choosing TLS 1.3"));
  GLEANER_TRY(openssl(SSL_CTX_set_ciphersuites(context,
                                               "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:"
                                               "TLS_AES_256_GCM_SHA384") == 1,
                      "choosing ciphers"));
  GLEANER_TRY(openssl(SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1, "choosing key exchanges"));
  if (!is_server) return {};
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // the tickets hold all
  SSL_CTX_set_timeout(context, kTicketSeconds);
  SSL_CTX_set_max_early_data(context, 0);
  GLEANER_TRY(openssl(SSL_CTX_set_num_tickets(context, 1) == 1, "setting the number of tickets"));
  const auto* const id = reinterpret_cast<const unsigned char*>(kSessionContext);
  return openssl(SSL_CTX_set_session_id_context(context, id, sizeof(kSessionContext) - 1) == 1, "naming sessions");
}

Status load_files(SSL_CTX* context, const TlsFiles& files) {
  GLEANER_TRY(openssl(SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) == 1,
                      fmt::format("loading {}", files.certificate)));
  GLEANER_ASSIGN(const pki::KeyHandle key, pki::read_key(files.key));
  GLEANER_TRY(openssl(SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1,
                      fmt::format("loading {}", files.key)));
  return openssl(SSL_CTX_load_verify_file(context, files.ca.c_str()) == 1, fmt::format("loading {}", files.ca));
}

}  // namespace

struct TlsContext::State {
  ContextHandle context;
  TlsFiles files;
  std::string server_name;
  pki::CertificateFacts own;
  std::mutex mutex;
  std::map<std::string, SessionHandle> sessions;  // under mutex; by TlsConnection::server

  // A ticket is used once, so that nobody can link two connections by it; each connection brings the next one.
  SessionHandle take(const std::string& server) {
    const std::scoped_lock lock(mutex);
    const auto at = sessions.find(server);
    if (at == sessions.end()) return nullptr;
    SessionHandle session = std::move(at->second);
    sessions.erase(at);
    return session;
  }
  void keep(const std::string& server, SessionHandle session) {
    const std::scoped_lock lock(mutex);
    if (sessions.size() >= kSessionsMax && !sessions.contains(server)) sessions.clear();
    sessions[server] = std::move(session);
  }
};

namespace {

// A copy is kept: OpenSSL marks the connection's own session as unusable when the connection breaks.
int on_new_session(SSL* ssl, SSL_SESSION* session) {
  const auto* const connection = static_cast<const TlsConnection*>(SSL_get_ex_data(ssl, 0));
  auto* const state = static_cast<TlsContext::State*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0));
  if (connection != nullptr && state != nullptr && SSL_SESSION_is_resumable(session) == 1) {
    state->keep(connection->server, SessionHandle(SSL_SESSION_dup(session)));
  }
  return 0;  // the session stays OpenSSL's
}

}  // namespace

Result<TlsContext> TlsContext::make(const TlsFiles& files, const std::string& server_name) {
  const bool is_server = server_name.empty();
  ignore_broken_pipes();
  auto state = std::make_shared<State>();
  state->files = files;
  state->server_name = server_name;
  GLEANER_ASSIGN(state->own, check_files(files, is_server));
  state->context.reset(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* const context = state->context.get();
  GLEANER_TRY(openssl(context != nullptr, "making a context"));
  GLEANER_TRY(set_rules(context, is_server));
  GLEANER_TRY(load_files(context, files));
  if (!is_server) {
    GLEANER_TRY(set_server_name(context, server_name));
    SSL_CTX_set_ex_data(context, 0, state.get());
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, on_new_session);
  }
  return TlsContext(std::move(state));
}

Result<TlsContext> TlsContext::make_server(const TlsFiles& files) { return make(files, ""); }

Result<TlsContext> TlsContext::make_client(const TlsFiles& files, const std::string& server_name) {
  if (server_name.empty()) return fail(ErrorCode::bad_input, "no name of the coordinator to check its certificate by");
  return make(files, server_name);
}

bool TlsContext::is_server() const { return state_->server_name.empty(); }
const std::string& TlsContext::server_name() const { return state_->server_name; }
const TlsFiles& TlsContext::files() const { return state_->files; }
const pki::CertificateFacts& TlsContext::own_certificate() const { return state_->own; }
ssl_ctx_st* TlsContext::native() const { return state_->context.get(); }

ssl_st* TlsContext::new_connection(int descriptor, TlsConnection& connection) const {
  SSL* const ssl = SSL_new(native());
  if (ssl == nullptr) return nullptr;
  if (SSL_set_fd(ssl, descriptor) != 1 || SSL_set_ex_data(ssl, 0, &connection) != 1) {
    SSL_free(ssl);
    return nullptr;
  }
  if (is_server()) {
    SSL_set_accept_state(ssl);
    return ssl;
  }
  SSL_set_connect_state(ssl);
  if (!is_ip(server_name())) SSL_set_tlsext_host_name(ssl, server_name().c_str());
  if (const SessionHandle session = state_->take(connection.server)) SSL_set_session(ssl, session.get());
  return ssl;
}

}  // namespace gleaner
