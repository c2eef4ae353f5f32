// OrderedMap: a map from strings that keeps the order of insertion and finds in constant time, for JSON objects.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace braid {

// nlohmann's ordered map finds by walking over all members, so that reading an object of 80,000 names takes 18 s. This
// one adds an index beyond a few members. Reading never changes the index, so several threads may read.
template <class Key, class T, class Less = std::less<Key>, class Allocator = std::allocator<std::pair<const Key, T>>>
class OrderedMap : public nlohmann::ordered_map<Key, T, Less, Allocator> {
  using Linear = nlohmann::ordered_map<Key, T, Less, Allocator>;
  using Members = typename Linear::Container;

 public:
  using iterator = typename Linear::iterator;
  using const_iterator = typename Linear::const_iterator;
  using size_type = typename Linear::size_type;
  using value_type = typename Linear::value_type;

  OrderedMap() = default;
  explicit OrderedMap(const Allocator& allocator) : Linear(allocator) {}
  template <class It>
  OrderedMap(It first, It last, const Allocator& allocator = Allocator()) : Linear(allocator) {
    insert(first, last);
  }
  OrderedMap(std::initializer_list<value_type> members, const Allocator& allocator = Allocator()) : Linear(allocator) {
    insert(members.begin(), members.end());
  }

  template <class K>
  std::pair<iterator, bool> emplace(K&& key, T&& value) {
    if (this->size() >= kUnindexed && indexed_ != this->size()) index_all();
    const size_type place = place_of(key);
    if (place < this->size()) return {this->begin() + difference(place), false};
    Members::emplace_back(std::forward<K>(key), std::move(value));
    if (indexed_ + 1 == this->size()) index_last();
    return {std::prev(this->end()), true};
  }
  std::pair<iterator, bool> insert(value_type&& member) { return emplace(member.first, std::move(member.second)); }
  std::pair<iterator, bool> insert(const value_type& member) { return emplace(member.first, T(member.second)); }
  template <class It, class = typename std::iterator_traits<It>::iterator_category>
  void insert(It first, It last) {
    for (; first != last; ++first) insert(*first);
  }

  template <class K>
  T& operator[](K&& key) {
    return emplace(std::forward<K>(key), T()).first->second;
  }
  template <class K>
  const T& operator[](K&& key) const {
    return at(key);
  }
  template <class K>
  T& at(K&& key) {
    return Members::at(checked(place_of(key))).second;
  }
  template <class K>
  const T& at(K&& key) const {
    return Members::at(checked(place_of(key))).second;
  }
  template <class K>
  iterator find(K&& key) {
    return this->begin() + difference(place_of(key));
  }
  template <class K>
  const_iterator find(K&& key) const {
    return this->begin() + difference(place_of(key));
  }
  template <class K>
  size_type count(K&& key) const {
    return place_of(key) < this->size() ? 1 : 0;
  }

  iterator erase(iterator position) { return erase(position, std::next(position)); }
  iterator erase(iterator first, iterator last) {
    forget_index();
    return Linear::erase(first, last);
  }
  template <class K>
  requires std::convertible_to<K, std::string_view> size_type erase(K&& key) {
    const iterator found = find(key);
    if (found == this->end()) return 0;
    erase(found);
    return 1;
  }
  void clear() {
    forget_index();
    Members::clear();
  }

 private:
  static constexpr size_type kUnindexed = 16;

  static auto difference(size_type place) { return static_cast<typename Members::difference_type>(place); }

  size_type checked(size_type place) const {
    if (place == this->size()) throw std::out_of_range("key not found");
    return place;
  }

  // Where a member is, or size().
  size_type place_of(std::string_view key) const {
    if (slots_.empty() || indexed_ != this->size()) {
      size_type place = 0;
      while (place < this->size() && Members::operator[](place).first != key) ++place;
      return place;
    }
    const uint32_t place = slots_[slot_of(key)];
    return place == kFree ? this->size() : place;
  }

  size_type slot_of(std::string_view key) const {
    size_type slot = std::hash<std::string_view>{}(key) & (slots_.size() - 1);
    while (slots_[slot] != kFree && Members::operator[](slots_[slot]).first != key)
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  void index_all() {
    slots_.assign(std::bit_ceil(this->size() * 4), kFree);
    for (indexed_ = 0; indexed_ < this->size(); ++indexed_) {
      slots_[slot_of(Members::operator[](indexed_).first)] = static_cast<uint32_t>(indexed_);
    }
  }

  void index_last() {
    if (slots_.empty() || this->size() * 2 > slots_.size()) return this->size() > kUnindexed ? index_all() : void();
    slots_[slot_of(this->back().first)] = static_cast<uint32_t>(indexed_++);
  }

  void forget_index() {
    slots_.clear();
    indexed_ = 0;
  }

  static constexpr uint32_t kFree = UINT32_MAX;
  std::vector<uint32_t> slots_;  // open addressing over the members; empty: no index
  size_type indexed_ = 0;        // the index is of use while this is size()
};

}  // namespace braid
