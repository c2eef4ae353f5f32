// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_store.h"

#include <gtest/gtest.h>

namespace braid::server {
namespace {

Json message(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

ResponseStore::Entry entry(const std::string& id, const std::string& text, std::shared_ptr<const Turn> parent = {}) {
  return {id, {{"id", id}}, Json::array({text}), Json::array({message(text)}), std::move(parent)};
}

TEST(ResponseStore, ConversationsAreWholeAndOutliveWhatTheyWentOnFrom) {
  ResponseStore store;
  store.add(entry("a", "one"));
  store.add(entry("b", "two", store.turn("a")));
  store.add(entry("c", "three", store.turn("b")));
  store.add(entry("d", "other", store.turn("a")));
  EXPECT_EQ(store.turn("c")->conversation(), Json::array({message("one"), message("two"), message("three")}));
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_FALSE(store.response("a"));
  EXPECT_EQ(store.turn("d")->conversation(), Json::array({message("one"), message("other")}));
  EXPECT_EQ(*store.items("c"), Json::array({"three"}));
}

TEST(ResponseStore, TheLeastRecentlyUsedGoWhenItIsFull) {
  ResponseStore store(20000);
  const std::string text(2000, 'x');
  for (int i = 0; i < 50; ++i) {
    store.add(entry(std::to_string(i), text));
    EXPECT_LE(store.bytes(), 20000u);
    EXPECT_TRUE(store.response("0")) << i;  // and so it is the last used
  }
  EXPECT_FALSE(store.response("40"));
  EXPECT_TRUE(store.response("49"));
}

TEST(ResponseStore, LongChainsAreTakenApartWithoutRecursion) {
  ResponseStore store(size_t{1} << 30);
  std::string last;
  for (int i = 0; i < 100000; ++i) {
    const std::string id = std::to_string(i);
    store.add(entry(id, "x", last.empty() ? nullptr : store.turn(last)));
    if (!last.empty()) store.erase(last);
    last = id;
  }
  EXPECT_EQ(store.turn(last)->conversation().size(), 100000u);
  store.erase(last);
  EXPECT_EQ(store.bytes(), 0u);
}

}  // namespace
}  // namespace braid::server
