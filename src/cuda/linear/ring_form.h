// How the ring kernel reads and multiplies a chunk, 128 bytes of each of 16 weight rows, by the form of codes:
// what a lane reads of it, the left operands that this gives, and how columns of x lie in shared memory to suit them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/halves.h"
#include "cuda/common/reduce.h"
#include "cuda/linear/ring.h"

namespace braid::cuda {

template <RingForm kForm>
struct ChunkForm {
  static constexpr bool kGrouped = kForm == RingForm::Nvfp4;
  static constexpr bool kBf16 = kForm == RingForm::Bf16;
  static constexpr bool kBlocks = kForm == RingForm::Fp8Blocks;  // a scale for each chunk of a row
  static constexpr bool kScaled = !kBf16, kRows = kScaled && !kBlocks;
  static constexpr int kColumns = kBf16 ? 64 : kGrouped ? 256 : 128;
  static constexpr int kLaneColumns = kColumns / 4;  // of a row that a lane multiplies
  static constexpr int kPieces = kLaneColumns / 8;   // of 16 bytes of x
  static constexpr int kXBytes = kColumns * 2;
  static constexpr int kGroupBytes = kGrouped ? kTileRows * 16 : 0;
  static constexpr int kTeam = kColumns / 8;  // lanes that prepare a chunk of a row of x
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
      if constexpr (kGrouped) held.groups[half] = *reinterpret_cast<const uint32_t*>(groups + row * 16 + t * 4);
    }
  }

  // The left operands of piece q: two products of 16 columns.
  static __device__ void operands(uint32_t (&a)[2][4], const Held& held, int q) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kBf16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i / 2][i % 2 * 2 + half] = held.words[half][4 * q + i];
      } else if constexpr (kGrouped) {
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
          constexpr bool kFp8 = kForm == RingForm::Fp8 || kBlocks;
          a[i][half] = kFp8 ? e4m3_halves(word) : int8_halves<0>(word);
          a[i][2 + half] = kFp8 ? e4m3_halves(word >> 16) : int8_halves<1>(word);
        }
      }
    }
  }

  // A chunk of a row of x is prepared by a team of lanes, each its eight columns. Where these lie in the chunk:
  static __device__ int place_of_x(int lane) { return lane * 8 / kLaneColumns * 16 + lane * 8 % kLaneColumns / 8 * 64; }
  // All lanes of a warp: the right operand, and the scale that goes with the chunk.
  struct RightEight {
    uint4 words;
    float scale;
  };
  static __device__ RightEight right(const float (&values)[8]) {
    const uint32_t exponent = kScaled ? exponent_of_team(values) : 0;
    const float inverse = __uint_as_float((268u << 23) - exponent);
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = values[kGrouped ? i : 2 * i], high = values[kGrouped ? i + 4 : 2 * i + 1];  // as e2m1_halves
      if constexpr (kScaled) {
        const __half2 both = __floats2half2_rn(low * inverse, high * inverse);
        words[i] = *reinterpret_cast<const uint32_t*>(&both);
      } else {
        const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
        words[i] = *reinterpret_cast<const uint32_t*>(&both);
      }
    }
    return {{words[0], words[1], words[2], words[3]}, __uint_as_float(exponent - (14u << 23)) * kUnit};
  }
  // The exponent of the team's largest number, as it lies in a float: a number divided by 2^-14 of that power of two is
  // at most 2^15.
  static __device__ uint32_t exponent_of_team(const float (&values)[8]) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(values[i]));
    for (int offset = kTeam / 2; offset > 0; offset /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
    return max(__float_as_uint(largest) & 0x7F800000u, 15u << 23);
  }
};

}  // namespace braid::cuda
