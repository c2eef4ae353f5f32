// The ring kernel for one row that it normalises itself.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/ring_kernel.h"

namespace braid::cuda {
namespace {

template <RingForm kForm>
void launch_form(Context& context, const Ring& s, const Extents& extents) {
  start_ring(context, ring_kernel<kForm, 1, ring_warps(kForm, 1), RingInput::Normed>, s, extents);
}

}  // namespace

void launch_normed_ring(Context& context, const Ring& s, RingForm form, const Extents& extents) {
  switch (form) {
    case RingForm::Bf16:
      return launch_form<RingForm::Bf16>(context, s, extents);
    case RingForm::Fp8:
      return launch_form<RingForm::Fp8>(context, s, extents);
    case RingForm::Fp8Blocks:
      return launch_form<RingForm::Fp8Blocks>(context, s, extents);
    case RingForm::Int8:
      return launch_form<RingForm::Int8>(context, s, extents);
    case RingForm::Nvfp4:
      return launch_form<RingForm::Nvfp4>(context, s, extents);
  }
}

}  // namespace braid::cuda
