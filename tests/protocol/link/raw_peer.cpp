#include "tests/protocol/link/raw_peer.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace gleaner::testing {
namespace {

sockaddr_in local(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void read_to_end(int descriptor) {
  std::array<char, 4096> scratch{};
  while (::recv(descriptor, scratch.data(), scratch.size(), 0) > 0) {
  }
}

void speak(int descriptor, const RawOptions& options) {
  if (!options.plain_text.empty()) {
    ::send(descriptor, options.plain_text.data(), options.plain_text.size(), MSG_NOSIGNAL);
    ::shutdown(descriptor, SHUT_WR);
    read_to_end(descriptor);
    return;
  }
  SSL_CTX* const context = SSL_CTX_new(options.is_server ? TLS_server_method() : TLS_client_method());
  if (options.tls_version_max != 0) SSL_CTX_set_max_proto_version(context, options.tls_version_max);
  if (!options.files.certificate.empty()) {
    SSL_CTX_use_certificate_file(context, options.files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context, options.files.key.c_str(), SSL_FILETYPE_PEM);
  }
  SSL* const ssl = SSL_new(context);
  SSL_set_fd(ssl, descriptor);
  const int shaken = options.is_server ? SSL_accept(ssl) : SSL_connect(ssl);
  if (shaken == 1 && options.talk) options.talk(ssl);
  std::array<char, 4096> scratch{};
  while (shaken == 1 && SSL_read(ssl, scratch.data(), scratch.size()) > 0) {
  }
  ::shutdown(descriptor, SHUT_WR);
  read_to_end(descriptor);
  SSL_free(ssl);
  SSL_CTX_free(context);
  ERR_clear_error();
}

}  // namespace

RawPeer::RawPeer(std::uint16_t port, RawOptions options) : port_(port) {
  thread_ = std::thread([port, options = std::move(options)] {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = local(port);
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      speak(descriptor, options);
    }
    ::close(descriptor);
  });
}

RawPeer::RawPeer(RawOptions options) {
  options.is_server = true;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = local(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([listener, options = std::move(options)] {
    const int descriptor = ::accept(listener, nullptr, nullptr);
    speak(descriptor, options);
    ::close(descriptor);
    ::close(listener);
  });
}

}  // namespace gleaner::testing
