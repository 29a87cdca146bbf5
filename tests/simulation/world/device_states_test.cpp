#include "simulation/world/device_states.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "bed.hpp"
#include "common/descriptor.hpp"
#include "common/random.hpp"

namespace gleaner::simulation {
namespace {

std::shared_ptr<const Bytes> blob(std::size_t bytes, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  auto made = std::make_shared<Bytes>(bytes);
  for (std::size_t i = 0; i < bytes; i += 64) (*made)[i] = static_cast<std::byte>(random.bits32());
  return made;
}

using Truth = std::map<std::uint32_t, std::shared_ptr<const Bytes>>;

void expect_all(const DeviceStates& states, const Truth& truth) {
  EXPECT_EQ(states.devices(), truth.size());
  for (const auto& [device, bytes] : truth) {
    const auto loaded = states.load(device);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
    ASSERT_NE(*loaded, nullptr);
    EXPECT_EQ(**loaded, *bytes) << "device " << device;
  }
}

TEST(DeviceStates, WhoNeverTookPartHasNone) {
  const Folder folder;
  const DeviceStates states(folder.path(), 1 << 20);
  EXPECT_FALSE(states.has(3));
  EXPECT_EQ(*states.load(3), nullptr);
}

TEST(DeviceStates, NothingIsLostWhateverTheBudget) {
  for (const std::uint64_t budget : {0ULL, 5'000ULL, 50'000ULL, 1ULL << 30}) {
    const Folder folder;
    DeviceStates states(folder.path(), budget);
    Truth truth;
    Random random(budget, Purpose::test);
    for (std::uint64_t step = 0; step < 2'000; ++step) {
      const std::uint32_t device = random.below(100);
      truth[device] = blob(random.below(2'000), step);
      ASSERT_TRUE(states.save(device, truth[device]).has_value());
      EXPECT_LE(states.memory_bytes(), std::max<std::uint64_t>(budget, 2'000));
    }
    expect_all(states, truth);
  }
}

TEST(DeviceStates, ACheckpointIsFoundAgainAndWhatCameAfterItIsNot) {
  const Folder folder;
  Truth truth;
  DeviceStates::Manifest manifest;
  {
    DeviceStates states(folder.path(), 10'000);
    for (std::uint32_t device = 0; device < 50; ++device) {
      truth[device] = blob(700, device);
      ASSERT_TRUE(states.save(device, truth[device]).has_value());
    }
    manifest = *states.checkpoint();
    for (std::uint32_t device = 20; device < 70; ++device)
      ASSERT_TRUE(states.save(device, blob(900, 1'000 + device)).has_value());
  }
  DeviceStates again(folder.path(), 10'000);
  ASSERT_TRUE(again.restore(manifest).has_value());
  expect_all(again, truth);
}

// What the files of a folder take on the disk.
std::uint64_t disk_bytes(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    struct stat status = {};
    EXPECT_EQ(::stat(entry.path().c_str(), &status), 0);
    bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

bool makes_holes(const std::string& folder) {
  const std::string path = folder + "/holes";
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const bool makes = ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
  std::filesystem::remove(path);
  return makes;
}

// Old states take no room but where a checkpoint needs them.
TEST(DeviceStates, TheDiskHoldsWhatCountsAndWhatTwoCheckpointsNeed) {
  const Folder folder;
  DeviceStates states(folder.path(), 1 << 20);
  Truth truth;
  std::uint64_t largest = 0;
  for (std::uint64_t turn = 0; turn < 60; ++turn) {
    for (std::uint32_t device = 0; device < 20; ++device) {
      truth[device] = blob(200'000, turn * 100 + device);
      ASSERT_TRUE(states.save(device, truth[device]).has_value());
      largest = std::max(largest, disk_bytes(folder.path()));
    }
    const auto manifest = states.checkpoint();
    ASSERT_TRUE(manifest.has_value());
    if (turn % 20 != 19) continue;
    DeviceStates again(folder.path(), 1 << 20);
    // A second reader cuts what lies beyond the manifest, which is nothing.
    ASSERT_TRUE(again.restore(*manifest).has_value());
    expect_all(again, truth);
  }
  EXPECT_LT(largest, (makes_holes(folder.path()) ? 4U : 25U) * 20U * 210'000U);
  expect_all(states, truth);
}

TEST(DeviceStates, WithoutCheckpointsTheDiskHoldsWhatCounts) {
  const Folder folder;
  if (!makes_holes(folder.path())) GTEST_SKIP() << "this file system makes no holes";
  DeviceStates states(folder.path(), 1 << 20);
  Truth truth;
  for (std::uint64_t turn = 0; turn < 500; ++turn) {
    const auto device = static_cast<std::uint32_t>(turn % 10);
    truth[device] = blob(200'000, turn);
    ASSERT_TRUE(states.save(device, truth[device]).has_value());
  }
  EXPECT_LT(disk_bytes(folder.path()), 2U * 10U * 200'000U);
  expect_all(states, truth);
}

// A killed one goes on from its last checkpoint however often states were written since, and from the one before
// when it was killed within the last.
TEST(DeviceStates, EveryCheckpointThatMayBeNeededIsWhole) {
  const Folder folder;
  std::vector<std::pair<DeviceStates::Manifest, Truth>> checkpoints;
  DeviceStates states(folder.path(), 50'000);
  Truth truth;
  Random random(8, Purpose::test);
  for (std::uint64_t turn = 0; turn < 8; ++turn) {
    for (std::uint64_t step = 0; step < 40; ++step) {
      const std::uint32_t device = random.below(15);
      truth[device] = blob(20'000 + random.below(20'000), turn * 1'000 + step);
      ASSERT_TRUE(states.save(device, truth[device]).has_value());
    }
    const auto manifest = states.checkpoint();
    ASSERT_TRUE(manifest.has_value());
    checkpoints.emplace_back(*manifest, truth);
    for (std::size_t back = 0; back < std::min<std::size_t>(2, checkpoints.size()); ++back) {
      const auto& [of, expected] = checkpoints[checkpoints.size() - 1 - back];
      const Folder copy;
      std::filesystem::copy_file(folder.path() + "/" + of.file, copy.path() + "/" + of.file);
      DeviceStates again(copy.path(), 50'000);
      ASSERT_TRUE(again.restore(of).has_value());
      expect_all(again, expected);
    }
  }
}

TEST(DeviceStates, DamageIsFoundAndNamed) {
  const Folder folder;
  DeviceStates::Manifest manifest;
  {
    DeviceStates states(folder.path(), 1 << 20);
    ASSERT_TRUE(states.save(4, blob(1'000, 1)).has_value());
    manifest = *states.checkpoint();
  }
  {
    std::fstream file(folder.path() + "/" + manifest.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(500);
    file.put('x');
    file.put('y');
  }
  DeviceStates again(folder.path(), 1 << 20);
  ASSERT_TRUE(again.restore(manifest).has_value());
  const auto loaded = again.load(4);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), ErrorCode::corrupt);
  EXPECT_NE(loaded.error().message().find(manifest.file), std::string::npos);
}

TEST(DeviceStates, AFileThatIsTooShortIsDamaged) {
  const Folder folder;
  DeviceStates::Manifest manifest;
  {
    DeviceStates states(folder.path(), 1 << 20);
    ASSERT_TRUE(states.save(4, blob(1'000, 1)).has_value());
    manifest = *states.checkpoint();
  }
  std::filesystem::resize_file(folder.path() + "/" + manifest.file, 10);
  DeviceStates again(folder.path(), 1 << 20);
  const Status restored = again.restore(manifest);
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().code(), ErrorCode::corrupt);
}

}  // namespace
}  // namespace gleaner::simulation
