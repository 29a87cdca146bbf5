#include "training/leaf.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/training/scratch_folder.hpp"

namespace gleaner {
namespace {

// 784 pixels: the first as given, the others white.
std::string image(const std::string& first, std::size_t pixels = 784) {
  std::string text = "[" + first;
  for (std::size_t i = 1; i < pixels; ++i) text += ", 1.0";
  return text + "]";
}
std::string user(const std::string& name, const std::string& images, const std::string& labels) {
  return fmt::format(R"("{}": {{"x": [{}], "y": [{}]}})", name, images, labels);
}
std::string file(const std::string& names, const std::string& counts, const std::string& users) {
  return fmt::format(R"({{"users": [{}], "num_samples": [{}], "user_data": {{{}}}}})", names, counts, users);
}
std::string good() {
  return file(R"("f1", "f\u00e9_2")", "2, 1",
              user("f1", image("0.5") + ", " + image("0"), "61, 0") + "," + user("f\\u00e9_2", image("0.002"), "7"));
}

class Leaf : public ::testing::Test {
 protected:
  Result<Dataset> load(const std::string& content) const {
    folder_.write("train/all.json", content);
    return load_leaf_femnist(folder_.path(), Split::train, {0.0, 1.0});
  }
  std::string refusal(const std::string& content) const { return folder_.message_of(load(content)); }
  // Of a file with one user, whose two lists are these.
  std::string user_refusal(const std::string& images, const std::string& labels) const {
    return refusal(file(R"("a")", "1", user("a", images, labels)));
  }
  testing::ScratchFolder folder_;
};

TEST_F(Leaf, ReadsUsersWithTheirSamples) {
  const auto dataset = load(good());
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->samples, 3U);
  EXPECT_EQ(dataset->features, 784U);
  EXPECT_EQ(dataset->classes, 62U);
  EXPECT_EQ(dataset->labels, (std::vector<std::uint8_t>{61, 0, 7}));
  EXPECT_EQ(dataset->users, (std::vector<std::uint32_t>{0, 0, 1}));
  EXPECT_EQ(dataset->user_names, (std::vector<std::string>{"f1", "f\u00e9_2"}));
  EXPECT_EQ(dataset->pixels_of(0)[0], 128);  // 127.5, rounded up
  EXPECT_EQ(dataset->pixels_of(1)[0], 0);
  EXPECT_EQ(dataset->pixels_of(2)[0], 1);  // 0.51
  EXPECT_EQ(dataset->pixels_of(2)[783], 255);
}

// In any order of keys, with keys that are no matter, over several files in the order of their names.
TEST_F(Leaf, ReadsSeveralFilesAndSkipsTheRest) {
  folder_.write("test/b.json", R"({"user_data": {)" + user("b", image("1"), "2") +
                                   R"(}, "hierarchies": [["x", {"users": [1, null, true, 1.5]}], []], "note": "no",
                                   "empty": null, "users": ["b"], "num_samples": [1]})" +
                                   " \n\t ");
  folder_.write("test/a.json", file(R"("a")", "1", R"("a": {"y": [3], "x": [)" + image("0.25") + "]}"));
  folder_.write("test/readme.txt", "not read");
  const auto dataset = load_leaf_femnist(folder_.path(), Split::test, {0.0, 1.0});
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->labels, (std::vector<std::uint8_t>{3, 2}));
  EXPECT_EQ(dataset->user_names, (std::vector<std::string>{"a", "b"}));
}

TEST_F(Leaf, SamplesThatAreWrongAreNamed) {
  EXPECT_EQ(user_refusal(image("1", 783), "1"), "train/all.json: user a, sample 0: expected 784 pixels, found 783");
  EXPECT_EQ(user_refusal(image("1", 785), "1"), "train/all.json: user a, sample 0: expected 784 pixels, found more");
  EXPECT_EQ(user_refusal(image("1") + "," + image("1.01"), "1"),
            "train/all.json: user a, sample 1: expected numbers from 0 to 1, found 1.01");
  EXPECT_EQ(user_refusal(image("-0.1"), "1"),
            "train/all.json: user a, sample 0: expected numbers from 0 to 1, found -0.1");
  EXPECT_EQ(user_refusal(image("null"), "1"),
            "train/all.json: user a, sample 0: expected numbers from 0 to 1, found null");
  EXPECT_EQ(user_refusal(image("\"1\""), "1"),
            "train/all.json: user a, sample 0: expected numbers from 0 to 1, found text");
  EXPECT_EQ(user_refusal("3", "1"), "train/all.json: user a, sample 0: expected a list of pixels, found 3");
  EXPECT_EQ(user_refusal(image("1"), "62"), "train/all.json: user a, sample 0: expected a label below 62, found 62");
  EXPECT_EQ(user_refusal(image("1"), "-1"), "train/all.json: user a, sample 0: expected a label below 62, found -1");
  EXPECT_EQ(user_refusal(image("1"), "0.5"), "train/all.json: user a, sample 0: expected a label below 62, found 0.5");
  EXPECT_EQ(user_refusal(image("1"), "1, 2"),
            "train/all.json: user a: expected as many labels as samples, found 2 and 1");
}

TEST_F(Leaf, ListsThatDisagreeAreNamed) {
  const std::string one = user("a", image("1"), "1");
  EXPECT_EQ(refusal(file(R"("a")", "2", one)), "train/all.json: user a: expected 2 samples as in num_samples, found 1");
  EXPECT_EQ(refusal(file(R"("b")", "1", one)), "train/all.json: user b: expected it once in user_data, found none");
  EXPECT_EQ(refusal(file(R"("a", "a")", "1, 1", one + "," + user("c", image("1"), "1"))),
            "train/all.json: user a: expected it once in user_data, found none");
  EXPECT_EQ(refusal(file(R"("a", "b")", "1", one)),
            "train/all.json: expected as many users as num_samples and in user_data, found 2, 1 and 1");
  EXPECT_EQ(refusal(file(R"("a")", "1", one + "," + one)),
            "train/all.json: user a: expected every user once, found it again");
  EXPECT_EQ(refusal(R"({"users": [], "num_samples": []})"),
            "train/all.json: expected users, num_samples and user_data, found no user_data");
  EXPECT_EQ(refusal(R"({"users": [], "users": []})"), "train/all.json: expected users once, found it twice");
  EXPECT_EQ(refusal(file("", "", "")), "train: expected samples, found none");
}

TEST_F(Leaf, WrongShapesAreNamed) {
  EXPECT_EQ(refusal("[]"), "train/all.json: expected an object with users, num_samples and user_data, found an array");
  EXPECT_EQ(refusal(R"({"users": 3})"), "train/all.json: expected users to be an array, found 3");
  EXPECT_EQ(refusal(R"({"user_data": []})"), "train/all.json: expected user_data to be an object, found an array");
  EXPECT_EQ(refusal(R"({"users": [3]})"), "train/all.json: expected users to be a list of names, found 3");
  EXPECT_EQ(refusal(R"({"num_samples": ["3"]})"),
            "train/all.json: expected num_samples to be a list of whole numbers, found text");
  EXPECT_EQ(refusal(R"({"user_data": {"a": 3}})"), "train/all.json: user a: expected an object with x and y, found 3");
  EXPECT_EQ(refusal(R"({"user_data": {"a": {"z": 3}}})"), "train/all.json: user a: expected x and y, found \"z\"");
  EXPECT_EQ(refusal(R"({"user_data": {"a": {"x": {}}}})"), "train/all.json: user a: expected a list, found an object");
}

TEST_F(Leaf, EveryTruncationIsRefused) {
  const std::string whole = good();
  // Not one in ten thousand bytes, but all near the places where something begins or ends.
  for (std::size_t size = 0; size < whole.size(); size += size < 200 || size + 200 > whole.size() ? 1 : 97) {
    EXPECT_FALSE(load(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_NE(refusal(whole.substr(0, 30)).find("train/all.json: byte 30: expected JSON of LEAF"), std::string::npos);
  EXPECT_NE(refusal(whole + "{}").find("expected the end of the file, found more"), std::string::npos);
}

TEST_F(Leaf, HostileFilesTakeNoMemory) {
  EXPECT_FALSE(load(std::string(100'000, '[')).has_value());
  EXPECT_FALSE(load(R"({"a":)" + std::string(100'000, '[')).has_value());
  EXPECT_FALSE(load(R"({"users": [")" + std::string(100'000, 'a') + R"("]})").has_value());
  EXPECT_FALSE(load("{\"" + std::string(100'000, 'a') + "\": 1}").has_value());
  EXPECT_FALSE(load(R"({"num_samples": [1e999]})").has_value());
}

TEST_F(Leaf, MissingFolders) {
  EXPECT_EQ(folder_.message_of(load_leaf_femnist(folder_.path(), Split::test, {}), ErrorCode::not_found),
            "test: cannot be listed: No such file or directory");
  std::filesystem::create_directory(folder_.path() / "test");
  EXPECT_EQ(folder_.message_of(load_leaf_femnist(folder_.path(), Split::test, {}), ErrorCode::not_found),
            "test: no *.json is there");
}

}  // namespace
}  // namespace gleaner
