#pragma once
// A folder with an authority, certificates, configurations and data, sound until a test breaks something.

#include <string>
#include <vector>

#include "protocol/pki/issue.hpp"
#include "tests/cli/cli_run.hpp"

namespace gleaner::cli {

struct Diagnosis {
  int code = -1;
  std::string text;
  std::vector<std::string> lines_with(const std::string& start) const;
};

class DoctorWorld : public InTemporaryFolder {
 protected:
  DoctorWorld();

  // Files NAME.pem and NAME.key; days are counted from now.
  void issue(const std::string& name, pki::Role role, std::int64_t from_days, std::int64_t until_days,
             const std::string& ca = "ca");
  void make_authority(const std::string& name);
  void write_coordinator(const std::string& listen = "127.0.0.1:0", const std::string& http = "127.0.0.1:0",
                         const std::string& certificate = "server");
  void write_client(std::uint16_t port, const std::string& certificate = "device",
                    const std::string& host = "127.0.0.1");
  void write_data();

  Diagnosis coordinator() const { return examine("--coordinator", "coordinator.toml"); }
  Diagnosis client() const { return examine("--client", "client.toml"); }
  Diagnosis run_file() const { return examine("--run", "run.toml"); }

  const std::int64_t now_s_;

 private:
  Diagnosis examine(const std::string& option, const std::string& name) const;
};

}  // namespace gleaner::cli
