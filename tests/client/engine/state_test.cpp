#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "client/engine/device_run.hpp"
#include "client/engine/state_store.hpp"
#include "common/random.hpp"

namespace gleaner {
namespace {

namespace fs = std::filesystem;

DeviceState some_state() {
  DeviceState state{.has_model = true, .lineage = {3}, .version = {8}, .model_hash = 77};
  state.model = {1.0F, -2.0F, 0.5F};
  state.memory.emplace(MemoryKind::residual, 3);
  state.memory->state()[1] = 0.25F;
  EXPECT_TRUE(state.memory->begin({3, {2}, {0.125F}}).has_value());
  state.ever_sent = true;
  state.last_sent_round = 4;
  state.answer = session::Answer{
      .run = {5}, .plan = {9}, .send = true, .digest = {6}, .payload = std::make_shared<const Bytes>(Bytes(20))};
  return state;
}

TEST(DeviceState, RoundTrip) {
  const DeviceState state = some_state();
  const Bytes bytes = to_bytes(state, {5});
  const auto back = device_state_from(bytes, {5}, MemoryKind::residual, 3);
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(to_bytes(*back, {5}), bytes);
  EXPECT_EQ(back->model, state.model);
  EXPECT_EQ(back->answer->plan.value, 9U);
}

TEST(DeviceState, EveryFlippedBitAndEveryTruncationIsFound) {
  const Bytes bytes = to_bytes(some_state(), {5});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(device_state_from(damaged, {5}, MemoryKind::residual, 3).has_value()) << i;
    EXPECT_FALSE(device_state_from(ByteView(bytes).first(i), {5}, MemoryKind::residual, 3).has_value()) << i;
  }
  EXPECT_FALSE(device_state_from(bytes, {6}, MemoryKind::residual, 3).has_value());
  EXPECT_FALSE(device_state_from(bytes, {5}, MemoryKind::residual, 4).has_value());
}

class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() {
    std::string name = (fs::temp_directory_path() / "gleaner-state-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~FileStoreTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(FileStoreTest, SavesReplacesAndKeepsRunsApart) {
  auto store = open_file_store((folder_ / "state").string());
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(*(*store)->load({1}), nullptr);
  const Bytes a(10, std::byte{1});
  const Bytes b(20, std::byte{2});
  ASSERT_TRUE((*store)->save({1}, a).has_value());
  ASSERT_TRUE((*store)->save({2}, b).has_value());
  ASSERT_TRUE((*store)->save({1}, b).has_value());
  EXPECT_EQ(**(*store)->load({1}), b);
  EXPECT_EQ(**(*store)->load({2}), b);
  struct stat facts{};
  ASSERT_EQ(::stat((folder_ / "state").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
}

TEST_F(FileStoreTest, ASecondClientOnTheSameDirectoryIsToldSo) {
  const auto first = open_file_store(folder_.string());
  ASSERT_TRUE(first.has_value());
  const auto second = open_file_store(folder_.string());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_NE(second.error().message().find(folder_.string()), std::string::npos);
}

TEST_F(FileStoreTest, ForgetsTheOldestEndedRuns) {
  auto store = open_file_store(folder_.string());
  for (std::uint64_t run = 1; run <= 6; ++run) {
    ASSERT_TRUE((*store)->save({run}, Bytes(4)).has_value());
    fs::last_write_time(folder_ / (std::string("000000000000000") + std::to_string(run) + ".state"),
                        fs::file_time_type::clock::now() + std::chrono::seconds(run));
  }
  ASSERT_TRUE((*store)->prune({1}, 2).has_value());
  EXPECT_NE(*(*store)->load({1}), nullptr);  // in use, however old
  EXPECT_EQ(*(*store)->load({4}), nullptr);
  EXPECT_NE(*(*store)->load({5}), nullptr);
  EXPECT_NE(*(*store)->load({6}), nullptr);
}

}  // namespace
}  // namespace gleaner
