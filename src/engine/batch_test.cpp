// SPDX-License-Identifier: Apache-2.0
#include "engine/batch.h"

#include <gtest/gtest.h>

#include "reference/executor.h"

namespace braid {
namespace {

class BatchTest : public ::testing::Test {
 protected:
  SequenceState state(int64_t length, int64_t room) {
    SequenceState out = pool_.acquire();
    EXPECT_TRUE(pool_.grow(out, room));
    pool_.commit(out, length);
    return out;
  }
  std::vector<int32_t> values(const Tensor& tensor) {
    std::vector<int32_t> out(static_cast<size_t>(tensor.elements()));
    executor_->download(std::as_writable_bytes(std::span(out)), tensor);
    return out;
  }

  std::unique_ptr<Executor> executor_ = make_reference_executor();
  StatePool pool_{*executor_, {{.name = "keys", .bytes_per_token = 4}}, {.pages = 20, .slots = 4}};
  BatchBuilder builder_{*executor_, pool_, {.tokens = 30, .sequences = 4, .heads = 6, .context = 64}, 100};
};

TEST_F(BatchTest, SequencesWithOneRowComeFirst) {
  const SequenceState a = state(0, 20), b = state(17, 18), c = state(40, 50), d = state(3, 4);
  const std::vector<int32_t> ta{1, 2, 3}, tb{4}, tc{5, 6}, td{7};
  const std::vector<SequenceRows> rows{{.state = &a, .tokens = ta, .heads = {0, 2}},
                                       {.state = &b, .tokens = tb, .heads = {0}},
                                       {.state = &c, .tokens = tc},
                                       {.state = &d, .tokens = td, .heads = {0}}};
  const BuiltBatch built = builder_.build(rows);
  const Rows& extents = built.batch.rows;
  EXPECT_EQ(extents.tokens, 7);
  EXPECT_EQ(extents.sequences, 4);
  EXPECT_EQ(extents.thin, 2);
  EXPECT_EQ(extents.longest, 3);
  EXPECT_EQ(extents.context, 42);
  EXPECT_EQ(extents.reach(), 64);
  EXPECT_EQ(values(built.batch.tokens), (std::vector<int32_t>{4, 7, 1, 2, 3, 5, 6}));
  EXPECT_EQ(values(extents.starts), (std::vector<int32_t>{0, 1, 2, 5, 7}));
  EXPECT_EQ(values(extents.positions), (std::vector<int32_t>{17, 3, 0, 1, 2, 40, 41}));
  EXPECT_EQ(values(extents.slots), (std::vector<int32_t>{b.slot, d.slot, a.slot, c.slot}));
  EXPECT_EQ(values(built.batch.head_rows), (std::vector<int32_t>{0, 1, 2, 4}));
  EXPECT_EQ(built.heads, (std::vector<HeadRow>{{1, 0}, {3, 0}, {0, 0}, {0, 2}}));
  EXPECT_EQ(built.starts, (std::vector<int64_t>{2, 0, 5, 1}));
  const Tensor& pages = built.batch.pages;
  ASSERT_EQ(pages.shape[0], 4);
  ASSERT_EQ(pages.shape[1], 4);
  const std::vector<int32_t> table = values(pages);
  EXPECT_EQ(table, (std::vector<int32_t>{b.pages[0], b.pages[1], 0, 0, d.pages[0], 0, 0, 0, a.pages[0], a.pages[1], 0,
                                         0, c.pages[0], c.pages[1], c.pages[2], c.pages[3]}));
}

TEST_F(BatchTest, ArraysKeepTheirAddresses) {
  const SequenceState a = state(0, 20);
  const std::vector<int32_t> tokens{1, 2, 3};
  const Batch first = builder_.build(std::vector<SequenceRows>{{.state = &a, .tokens = tokens, .heads = {2}}}).batch;
  const Batch largest = builder_.largest();
  EXPECT_EQ(first.tokens.data, largest.tokens.data);
  EXPECT_EQ(first.rows.starts.data, largest.rows.starts.data);
  EXPECT_EQ(first.rows.positions.data, largest.rows.positions.data);
  EXPECT_EQ(first.rows.slots.data, largest.rows.slots.data);
  EXPECT_EQ(first.pages.data, largest.pages.data);
  EXPECT_EQ(first.head_rows.data, largest.head_rows.data);
}

TEST_F(BatchTest, WithoutHeadRowsTheTensorIsAbsent) {
  const SequenceState a = state(0, 20);
  const std::vector<int32_t> tokens{1, 2, 3};
  EXPECT_FALSE(builder_.build(std::vector<SequenceRows>{{.state = &a, .tokens = tokens}}).batch.head_rows);
}

using BatchDeathTest = BatchTest;

TEST_F(BatchDeathTest, IndicesAreChecked) {
  const SequenceState good = state(0, 20);
  const std::vector<int32_t> tokens{1, 2, 3}, outside{1, 100, 3}, negative{-1}, long_text(31, 5), seventeen(21, 5);
  const auto build = [&](const SequenceState& with, const std::vector<int32_t>& text, std::vector<int64_t> heads) {
    builder_.build(std::vector<SequenceRows>{{.state = &with, .tokens = text, .heads = std::move(heads)}});
  };
  build(good, tokens, {2});
  EXPECT_DEATH(build(good, outside, {}), "token=100");
  EXPECT_DEATH(build(good, negative, {}), "token=-1");
  EXPECT_DEATH(build(good, tokens, {3}), "head=3");
  EXPECT_DEATH(build(good, {}, {}), "rows");
  SequenceState bad = good;
  bad.slot = 4;
  EXPECT_DEATH(build(bad, tokens, {}), "slot=4");
  bad = good, bad.pages[1] = 20;
  EXPECT_DEATH(build(bad, tokens, {}), "page=20");
  bad = good, bad.pages.pop_back();
  EXPECT_DEATH(build(bad, seventeen, {}), "1 pages for 21 tokens");
  bad = good, bad.length = 62;
  EXPECT_DEATH(build(bad, tokens, {}), "context");
  bad = state(0, 48);
  EXPECT_DEATH(build(bad, long_text, {}), "tokens=31");
}

}  // namespace
}  // namespace braid
