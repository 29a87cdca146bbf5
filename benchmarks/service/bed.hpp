#pragma once
// What a measured coordinator stands in: a folder with a CA, certificates, a database and a configuration, and the real
// process serving from it. Everything is gone with the bed.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "benchmarks/service/child.hpp"
#include "common/error.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/pki/issue.hpp"

namespace gleaner::bench {

class Folder {  // removed with its contents
 public:
  static Result<Folder> make(const std::string& parent);
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder();
  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

class Bed {
 public:
  static Result<Bed> make(const std::string& parent);

  // "device-00042", certified when it is asked for the first time.
  static std::string device_name(std::uint32_t index);
  Result<TlsFiles> device(std::uint32_t index) const;
  TlsFiles coordinator() const;
  std::string at(const std::string& name) const { return folder_.at(name); }

 private:
  Bed(Folder folder, Folder certificates, pki::KeyFiles ca)
      : folder_(std::move(folder)), certificates_(std::move(certificates)), ca_(std::move(ca)) {}
  Folder folder_;
  Folder certificates_;
  pki::KeyFiles ca_;
};

// gleaner-coordinator with a fresh database.
class Coordinator {
 public:
  static Result<Coordinator> start(const Bed& bed, const std::string& name);

  std::uint16_t port() const { return port_; }
  const Child& process() const { return process_; }
  std::string database() const { return database_; }
  Status start_run(const std::string& toml) const;
  Result<std::uint64_t> inflight_bytes() const;  // the gauge of /metrics
  std::uint32_t snapshots_written() const;       // as its log tells
  Status stop();

 private:
  Coordinator(Child process, std::uint16_t port, std::string socket, std::string database)
      : process_(std::move(process)), port_(port), socket_(std::move(socket)), database_(std::move(database)) {}
  Child process_;
  std::uint16_t port_ = 0;
  std::string socket_;
  std::string database_;
};

}  // namespace gleaner::bench
