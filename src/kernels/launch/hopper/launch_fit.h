#pragma once

namespace rocmforge::hopper {

// How much shared memory a work-group takes: as many slots of its ring as fit.

inline constexpr int shared_bytes_of_group = 227 * 1024;
/// Two work-groups share a multiprocessor where they fit; each reserves 1 KB more.
inline constexpr int shared_bytes_of_pair = 113 * 1024;
/// For a work-group that has a multiprocessor to itself: more than half, because two of a launch on one multiprocessor would
/// leave another one idle, and no more than needed, so that smaller kernels can start beside it.
inline constexpr int shared_bytes_of_vectors = 150 * 1024;

/// The most units or slots of a ring, up to `most`, with which a work-group takes at most `room` bytes; 0: none fits.
template <class Bytes>
constexpr int fitting(int most, int room, const Bytes& bytes) {
  while (most > 0 && bytes(most) > room) {
    --most;
  }
  return most;
}

/// How a launch uses the shared memory.
struct LaunchFit {
  int slots = 0;   ///< 0: does not fit
  int groups = 1;  ///< on a multiprocessor
  int bytes = 0;
};

/// `bytes(slots)`: what a work-group takes; at most `most_groups` share a multiprocessor.
template <class Bytes>
constexpr LaunchFit fit_launch(int most_groups, const Bytes& bytes) {
  constexpr int most_slots = 8;
  constexpr int enough_slots = 2;
  const int groups = bytes(enough_slots) <= shared_bytes_of_pair ? most_groups : 1;
  const bool alone = most_groups == 1 && bytes(enough_slots) <= shared_bytes_of_vectors;
  const int room = groups == 2 ? shared_bytes_of_pair : alone ? shared_bytes_of_vectors : shared_bytes_of_group;
  const int slots = fitting(most_slots, room, bytes);
  return slots > 0 ? LaunchFit{slots, groups, bytes(slots)} : LaunchFit{};
}

}  // namespace rocmforge::hopper
