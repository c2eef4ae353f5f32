// The ring kernel for one row that chose matrices.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/ring_kernel.h"

namespace braid::cuda {
namespace {

template <RingForm kForm>
void launch_form(Context& context, const Ring& s, RingInput input, const Extents& extents) {
  constexpr int kWarps = ring_warps(kForm, 1);
  auto* kernel = input == RingInput::Slots ? ring_kernel<kForm, 1, kWarps, RingInput::Slots>
                                           : ring_kernel<kForm, 1, kWarps, RingInput::Joined>;
  start_ring(context, kernel, s, extents);
}

}  // namespace

void launch_choice_ring(Context& context, const Ring& s, RingForm form, RingInput input, const Extents& extents) {
  switch (form) {
    case RingForm::Bf16:
      return launch_form<RingForm::Bf16>(context, s, input, extents);
    case RingForm::Fp8:
      return launch_form<RingForm::Fp8>(context, s, input, extents);
    case RingForm::Fp8Blocks:
      return launch_form<RingForm::Fp8Blocks>(context, s, input, extents);
    case RingForm::Int8:
      return launch_form<RingForm::Int8>(context, s, input, extents);
    case RingForm::Nvfp4:
      return launch_form<RingForm::Nvfp4>(context, s, input, extents);
  }
}

}  // namespace braid::cuda
