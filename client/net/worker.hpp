#pragma once
// The one thread that trains, reads and writes a device's state. Jobs run in the order given; their results go back to
// the loop. Runs of several jobs share the loaded data set.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "client/config.hpp"
#include "client/engine/device_run.hpp"
#include "client/session/session.hpp"

namespace gleaner {

class Worker {
 public:
  using Post = std::function<void(std::function<void()>)>;
  using Deliver = std::function<void(session::Event)>;

  // thread: runs jobs one at a time in order. deliver is called on the loop, through post_loop.
  Worker(const ClientConfig& config, DeviceName name, std::unique_ptr<StateStore> store, const KernelTable& kernels,
         Post thread, Post post_loop, Deliver deliver);

  void perform(session::OpenRun action);
  void perform(const session::SettlePlan& action);
  void perform(session::Execute action);
  void perform(const session::LoadAnswer& action);
  void perform(const session::CloseRun& action);

 private:
  session::RunOpened open(const session::OpenRun& action);
  Result<std::shared_ptr<const Dataset>> samples_of(const RunSpec& spec);
  void reply(session::Event event);

  const ClientConfig& config_;
  DeviceName name_;
  std::unique_ptr<StateStore> store_;
  const KernelTable& kernels_;
  Post thread_;
  Post post_loop_;
  Deliver deliver_;
  // On the thread only.
  std::string loaded_name_;
  std::shared_ptr<const Dataset> loaded_;
  std::unique_ptr<DeviceRun> run_;
  RunId run_id_;
};

}  // namespace gleaner
