// Products: our own kernel on every shape and side, and what cuBLAS is told, by a stand-in that multiplies as cuBLAS
// documents it.

#include "training/cuda/products.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/training/cuda/cohort.hpp"
#include "training/cuda/cublas_products.hpp"

namespace gleaner::cuda {
namespace {

using testing::Bench;
using testing::Cohort;

struct StandIn {
  void* stream = nullptr;
  bool has_workspace = false;
};
int live_handles = 0;
int refused = 0;  // the code of every product; 0: none is refused

// Column-major, through the stream so that graphs record it.
CublasCalls stand_in() {
  CublasCalls calls;
  calls.create = [](void** handle) {
    *handle = new StandIn;
    ++live_handles;
    return 0;
  };
  calls.destroy = [](void* handle) {
    delete static_cast<StandIn*>(handle);
    --live_handles;
    return 0;
  };
  calls.set_stream = [](void* handle, void* stream) {
    *static_cast<StandIn*>(handle) = {.stream = stream};
    return 0;
  };
  calls.set_workspace = [](void* handle, void* memory, std::size_t bytes) {
    static_cast<StandIn*>(handle)->has_workspace = memory != nullptr && bytes == kCublasWorkspaceBytes;
    return 0;
  };
  calls.multiply_strided = [](void* handle, CublasCalls::Operation left_operation,
                              CublasCalls::Operation right_operation, int rows, int columns, int inner,
                              const float* scale, const float* left, int left_leading, long long left_stride,
                              const float* right, int right_leading, long long right_stride, const float* keep,
                              float* result, int result_leading, long long result_stride, int count) {
    const StandIn& mine = *static_cast<const StandIn*>(handle);
    if (refused != 0 || !mine.has_workspace) return refused;
    const auto work = [=, scaling = *scale, keeping = *keep] {
      for (int c = 0; c < count; ++c) {
        for (int j = 0; j < columns; ++j) {
          for (int i = 0; i < rows; ++i) {
            float sum = 0.0F;
            for (int k = 0; k < inner; ++k) {
              const int l = left_operation == CublasCalls::as_stored ? k * left_leading + i : i * left_leading + k;
              const int r = right_operation == CublasCalls::as_stored ? j * right_leading + k : k * right_leading + j;
              sum += left[c * left_stride + l] * right[c * right_stride + r];
            }
            float& entry = result[c * result_stride + j * result_leading + i];
            entry = (keeping == 0.0F ? 0.0F : keeping * entry) + scaling * sum;
          }
        }
      }
    };
    return static_cast<emulation::Launcher*>(mine.stream)->launch("stand-in", {}, work);
  };
  calls.describe = [](int code) { return fmt::format("stand-in {}", code); };
  return calls;
}

std::unique_ptr<BatchTrainer> trainer_with(Bench& bench, const Cohort& cohort, std::unique_ptr<Products> products) {
  return BatchTrainer::create(*bench.engine, std::move(products), emulated::training_launches(), cohort.spec,
                              cohort.dataset)
      .value();
}

// Rows that a slot does not use are multiplied, too, and change nothing.
TEST(Cublas, IsToldTheSameProducts) {
  for (const char* model : {"mlp", "cnn", "leaf-cnn"}) {
    SCOPED_TRACE(model);
    Cohort cohort(model, 6, {6, 3, 1, 5}, 11);
    Bench bench({.seed = 3});
    std::byte workspace{};
    const auto trainer = trainer_with(bench, cohort, cublas_products(stand_in(), &workspace).value());
    testing::expect_near_cpu(cohort, testing::train(*trainer, cohort.turns));
    cohort.turns[2].work.momentum = 0.9F;
    testing::expect_near_cpu(cohort, testing::train(*trainer, cohort.turns));
    EXPECT_THAT(trainer->describe(), ::testing::HasSubstr("cuBLAS"));
  }
  EXPECT_EQ(live_handles, 0);
}

TEST(Cublas, ThatFailsIsAnError) {
  const Cohort cohort("softmax", 3, {2});
  Bench bench;
  std::byte workspace{};
  const auto trainer = trainer_with(bench, cohort, cublas_products(stand_in(), &workspace).value());
  refused = 13;
  const auto outcome = testing::train(*trainer, cohort.turns);
  refused = 0;
  ASSERT_FALSE(outcome.status);
  EXPECT_THAT(outcome.status.error().message(), ::testing::HasSubstr("stand-in 13"));
  testing::expect_near_cpu(cohort, testing::train(*trainer, cohort.turns));
}

TEST(Cublas, IsNotThereInABuildWithoutIt) {
  const auto calls = load_cublas();
  if (!calls) EXPECT_THAT(calls.error().message(), ::testing::HasSubstr("cuBLAS"));
}

struct Shape {
  std::uint32_t rows;  // a sample
  std::uint32_t columns;
  std::uint32_t inner;
};

std::vector<float> random_floats(std::size_t size, Random& random) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

class OwnProducts : public ::testing::TestWithParam<Shape> {};

// Forward, backward and for the weights; a slot without rows and one with fewer than there is room for.
TEST_P(OwnProducts, AreThoseOfPlainLoops) {
  constexpr std::uint32_t kRoom = 5;
  const std::vector<Part> now = {{.rows = 5}, {.rows = 0}, {.rows = 3}};
  const Shape shape = GetParam();
  Random random(shape.rows * 1'000 + shape.columns, Purpose::test);
  for (const int kind : {0, 1, 2}) {
    SCOPED_TRACE(kind);
    const bool counts_inner = kind == 2;
    const std::uint32_t rows = counts_inner ? shape.inner : kRoom * shape.rows;
    const std::uint32_t inner = counts_inner ? kRoom * shape.rows : shape.inner;
    const auto left = random_floats(3UL * rows * inner, random);
    const auto right = random_floats(3UL * inner * shape.columns, random);
    const auto before = random_floats(3UL * rows * shape.columns, random);
    Bench bench({.seed = 5});
    Engine& engine = *bench.engine;
    const auto on_left = engine.uploaded(std::span<const float>(left)).value();
    const auto on_right = engine.uploaded(std::span<const float>(right)).value();
    const auto result = engine.uploaded(std::span<const float>(before)).value();
    const auto parts = engine.uploaded(std::span<const Part>(now)).value();
    const Wave wave = {.devices = 3, .rows = kRoom, .now = parts.data()};
    const auto products = own_products(engine, emulated::training_launches());
    ASSERT_TRUE(
        products->multiply(engine.stream(), wave,
                           {.left = {{on_left.data(), std::uint64_t{rows} * inner}, counts_inner ? 1U : 0U},
                            .right = {{on_right.data(), std::uint64_t{inner} * shape.columns}, kind == 1 ? 1U : 0U},
                            .result = {result.data(), std::uint64_t{rows} * shape.columns},
                            .rows = rows,
                            .columns = shape.columns,
                            .inner = inner,
                            .of_a_row = shape.rows,
                            .counts_inner = counts_inner ? 1U : 0U,
                            .scale = counts_inner ? -0.5F : 1.0F,
                            .keep = counts_inner ? 1.0F : 0.0F}));
    std::vector<float> after(before.size());
    ASSERT_TRUE(engine.download(result, std::span(after)));
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const std::uint32_t counted = now[slot].rows * shape.rows;
      for (std::uint32_t i = 0; i < rows; ++i) {
        for (std::uint32_t j = 0; j < shape.columns; ++j) {
          const std::size_t at = (std::size_t{slot} * rows + i) * shape.columns + j;
          if (!counts_inner && i >= counted) {
            if (slot == 1) ASSERT_EQ(after[at], before[at]);
            continue;
          }
          double sum = 0.0;
          for (std::uint32_t k = 0; k < (counts_inner ? counted : inner); ++k) {
            const std::size_t l = std::size_t{slot} * rows * inner + (counts_inner ? k * rows + i : i * inner + k);
            const std::size_t r =
                std::size_t{slot} * inner * shape.columns + (kind == 1 ? j * inner + k : k * shape.columns + j);
            sum += static_cast<double>(left[l]) * static_cast<double>(right[r]);
          }
          const double expected = counts_inner ? static_cast<double>(before[at]) - 0.5 * sum : sum;
          ASSERT_NEAR(after[at], expected, 1e-4) << slot << ' ' << i << ' ' << j;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OwnProducts,
                         ::testing::Values(Shape{1, 1, 1}, Shape{1, 10, 33}, Shape{7, 64, 16}, Shape{9, 65, 17},
                                           Shape{13, 3, 40}, Shape{2, 130, 15}),
                         [](const auto& each) {
                           return fmt::format("{}_by_{}_by_{}", each.param.rows, each.param.columns, each.param.inner);
                         });

}  // namespace
}  // namespace gleaner::cuda
