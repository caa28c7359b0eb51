#pragma once
// A vector that stores its first N elements inline: for short lists that exist in large numbers (the axes or
// factors of a dim), whose allocations would dominate a pass. Trivially copyable elements only.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <new>
#include <type_traits>

namespace dtc {

template <class T, uint32_t N> class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() : data_(inlineData()) {}
  SmallVector(std::initializer_list<T> list) : SmallVector(list.begin(), list.end()) {}
  template <class It> SmallVector(It first, It last) : SmallVector() { insert(end(), first, last); }
  SmallVector(const SmallVector& other) : SmallVector() { copy(other); }
  SmallVector(SmallVector&& other) noexcept : SmallVector() { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) copy(other);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~SmallVector() { release(); }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  iterator begin() { return data_; }
  iterator end() { return data_ + size_; }
  [[nodiscard]] const_iterator begin() const { return data_; }
  [[nodiscard]] const_iterator end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  [[nodiscard]] const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  [[nodiscard]] const T& back() const { return data_[size_ - 1]; }

  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  void push_back(T value) { // by value: it may be an element of this vector
    reserve(size_ + size_t{1});
    data_[size_++] = value;
  }
  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  void resize(size_t count) {
    reserve(count);
    for (size_t i = size_; i < count; ++i) data_[i] = T{};
    size_ = static_cast<uint32_t>(count);
  }
  iterator erase(const_iterator first, const_iterator last) {
    T* to = data_ + (first - data_);
    std::copy(last, const_cast<const T*>(end()), to);
    size_ -= static_cast<uint32_t>(last - first);
    return to;
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  // The range must not be part of this vector.
  template <class It> iterator insert(const_iterator at, It first, It last) {
    const size_t begin = static_cast<size_t>(at - data_),
                 count = static_cast<size_t>(std::distance(first, last));
    reserve(size_ + count);
    std::copy_backward(data_ + begin, data_ + size_, data_ + size_ + count);
    std::copy(first, last, data_ + begin);
    size_ += static_cast<uint32_t>(count);
    return data_ + begin;
  }
  iterator insert(const_iterator at, T value) { return insert(at, &value, &value + 1); }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

private:
  T* inlineData() { return reinterpret_cast<T*>(inline_); }
  [[nodiscard]] bool onHeap() const { return capacity_ > N; }
  void release() {
    if (onHeap()) ::operator delete(data_);
  }
  void grow(size_t count) {
    const size_t room = std::max<size_t>(count, 2 * size_t{capacity_});
    T* fresh = static_cast<T*>(::operator new(room * sizeof(T)));
    std::copy(begin(), end(), fresh);
    release();
    data_ = fresh;
    capacity_ = static_cast<uint32_t>(room);
  }
  void copy(const SmallVector& other) {
    reserve(other.size_);
    std::copy(other.begin(), other.end(), data_);
    size_ = other.size_;
  }
  // `this` owns no memory; `other` is empty afterwards.
  void take(SmallVector& other) {
    if (other.onHeap()) {
      data_ = other.data_;
      capacity_ = other.capacity_;
      size_ = other.size_;
      other.data_ = other.inlineData();
      other.capacity_ = N;
    } else {
      data_ = inlineData();
      capacity_ = N;
      std::copy(other.begin(), other.end(), data_);
      size_ = other.size_;
    }
    other.size_ = 0;
  }

  T* data_;
  uint32_t size_ = 0, capacity_ = N;
  alignas(T) unsigned char inline_[N * sizeof(T)];
};

} // namespace dtc
