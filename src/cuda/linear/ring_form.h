// How the streaming kernel reads and multiplies a chunk, 128 bytes of each of 16 weight rows, by the form of codes:
// what a lane reads of it, the left operands that this gives, and how columns of x lie in shared memory to suit them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/halves.h"
#include "cuda/common/reduce.h"
#include "cuda/common/tensor_map.h"
#include "cuda/linear/ring.h"

namespace braid::cuda {

constexpr int kTileRows = kStreamMapRows, kChunkBytes = kTileRows * kStreamMapBytes;

template <RingForm kForm>
struct ChunkForm {
  static constexpr bool kGrouped = kForm == RingForm::Nvfp4;
  static constexpr int kColumns = kGrouped ? 256 : 128;
  static constexpr int kLaneColumns = kColumns / 4;  // of a row that a lane multiplies
  static constexpr int kPieces = kLaneColumns / 8;   // of 16 bytes of x
  static constexpr int kXBytes = kColumns * 2;
  static constexpr int kGroupBytes = kGrouped ? kTileRows * kGroupMapBytes : 0;
  static constexpr int kTeam = kColumns / 16;  // lanes that prepare a chunk of a row of x
  static constexpr float kUnit = kGrouped ? 1 / kE2m1Unit : 1.0f;

  // Rows of x lie so far apart that the tensor cores' operands come from all banks.
  static __host__ __device__ int row_pitch(int chunks) { return chunks * kXBytes + 64; }

  // What a lane reads: with g = lane / 4 and t = lane % 4 of rows g and g + 8 the t-th quarter.
  struct Held {
    uint32_t words[2][8];
    uint32_t groups[2];
  };
  static __device__ void load(Held& held, const uint8_t* codes, const uint8_t* groups) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = g + 8 * half;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 v = *reinterpret_cast<const uint4*>(codes + row * 128 + ((2 * t + i) ^ g) * 16);
        held.words[half][4 * i] = v.x, held.words[half][4 * i + 1] = v.y;
        held.words[half][4 * i + 2] = v.z, held.words[half][4 * i + 3] = v.w;
      }
      if constexpr (kGrouped)
        held.groups[half] = *reinterpret_cast<const uint32_t*>(groups + row * kGroupMapBytes + t * 4);
    }
  }

  // The left operands of piece q: two products of 16 columns.
  static __device__ void operands(uint32_t (&a)[2][4], const Held& held, int q) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kGrouped) {
        uint32_t pairs[4];
        e2m1_halves(pairs, held.words[half][q]);
        const uint32_t two = e4m3_halves(held.groups[half] >> q / 4 * 16);
        const uint32_t by = __byte_perm(two, 0, q / 2 % 2 == 0 ? 0x1010 : 0x3232);
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i / 2][i % 2 * 2 + half] = multiply_halves(pairs[i], by);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t word = held.words[half][2 * q + i];
          constexpr bool kFp8 = kForm == RingForm::Fp8;
          a[i][half] = kFp8 ? e4m3_halves(word) : int8_halves<0>(word);
          a[i][2 + half] = kFp8 ? e4m3_halves(word >> 16) : int8_halves<1>(word);
        }
      }
    }
  }

  // A lane of a team: its sixteen columns of a chunk of x into the chunk at `to`; the first lane stores its scale.
  static __device__ void put_x(uint8_t* to, float* scale, const float (&values)[16]) {
    const int lane = threadIdx.x % kTeam, t = lane * 16 / kLaneColumns, q = lane * 16 % kLaneColumns / 8;
    to += t * 16 + q * 64;
    uint32_t words[8];
    const uint32_t exponent = exponent_of_team(values);
    const float inverse = __uint_as_float((268u << 23) - exponent);
    if (lane == 0) *scale = __uint_as_float(exponent - (14u << 23)) * kUnit;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      constexpr int kPairs[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // as e2m1_halves gives them
      const int piece = i / 4 * 8, at = i % 4 * 2;
      const __half2 both = __floats2half2_rn(values[piece + (kGrouped ? kPairs[at] : at)] * inverse,
                                             values[piece + (kGrouped ? kPairs[at + 1] : at + 1)] * inverse);
      words[i] = *reinterpret_cast<const uint32_t*>(&both);
    }
    *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
    *reinterpret_cast<uint4*>(to + 64) = {words[4], words[5], words[6], words[7]};
  }
  // The exponent of the team's largest number, as it lies in a float: a number divided by 2^-14 of that power of two is
  // at most 2^15.
  static __device__ uint32_t exponent_of_team(const float (&values)[16]) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) largest = fmaxf(largest, fabsf(values[i]));
    const unsigned team = ((1u << kTeam) - 1) << threadIdx.x % 32 / kTeam * kTeam;
    for (int offset = kTeam / 2; offset > 0; offset /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(team, largest, offset));
    return max(__float_as_uint(largest) & 0x7F800000u, 15u << 23);
  }
};

}  // namespace braid::cuda
