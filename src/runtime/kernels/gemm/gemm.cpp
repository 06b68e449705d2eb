#include "runtime/kernels/gemm/gemm.h"

#include <algorithm>

#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kMostPackedBytes = int64_t{36} << 20;  // of b at a time

Scratch scratch_for_panels;

}  // namespace

template <class Element, class Stored>
PackedGemm<Element, Stored>::PackedGemm(int64_t threads, int64_t m, int64_t n, int64_t k) : m_(m), n_(n), k_(k) {
  const int64_t width = gemm_microkernels_of<Element>().panel_width(), panels = PackedBOf<Element>::panels(n);
  const int64_t most = kMostPackedBytes / int64_t{sizeof(Element)} / (width * std::max<int64_t>(k, 1));
  panels_at_once_ = std::clamp<int64_t>(most, 1, std::max<int64_t>(panels, 1));
  if (m == 0 || n == 0) return;
  if (packs_parts(m, k)) {
    cut_ = partition_of(threads, with_packed_parts(size_of_matrix(m, panels, k, sizeof(Element))));
    return;
  }
  cut_ = partition_of_panels<Element>(threads, m, panels_at_once_, k);
  last_cut_ = panels % panels_at_once_ == 0 ? cut_ : partition_of_panels<Element>(threads, m, panels % panels_at_once_, k);
}

template <class Element, class Stored>
void PackedGemm<Element, Stored>::operator()(RuntimePool& pool, const MatrixOf<Stored>& a, const MatrixOf<Stored>& b,
                                             const ProductOutputOf<Element>& out) const {
  if (m_ == 0 || n_ == 0) return;
  const int64_t width = gemm_microkernels_of<Element>().panel_width(), panels = PackedBOf<Element>::panels(n_);
  if (packs_parts(m_, k_)) {
    const PackPanelOf<Element> pack = [this, &b](int64_t panel, Range rows, Element* to) {
      pack_panels(MatrixOf<Stored>{b.at(rows.first, 0), b.row, b.column}, rows.size(), n_, panel, panel + 1, to);
    };
    return multiply(pool, cut_, m_, a,
                    PackedBOf<Element>{/*depth=*/k_, /*columns=*/n_, /*data=*/nullptr, /*in_pairs=*/false, /*pack=*/&pack}, {0, panels},
                    out);
  }
  for (int64_t first = 0; first < panels; first += panels_at_once_) {
    const int64_t last = std::min(panels, first + panels_at_once_);
    auto* packed = scratch_for_panels.get<Element>((last - first) * width * k_);
    pool.parallel_for(last - first, 1,
                      [&](int64_t begin, int64_t end) { pack_panels(b, k_, n_, first + begin, first + end, packed + begin * width * k_); });
    multiply(pool, last - first == panels_at_once_ ? cut_ : last_cut_, m_, a, PackedBOf<Element>{k_, n_, packed - first * width * k_},
             {first, last}, out);
  }
}

template class PackedGemm<float, float>;
template class PackedGemm<double, double>;
template class PackedGemm<uint64_t, uint64_t>;
template class PackedGemm<uint32_t, uint32_t>;
template class PackedGemm<uint32_t, int16_t>;
template class PackedGemm<uint32_t, uint16_t>;
template class PackedGemm<uint32_t, int8_t>;
template class PackedGemm<uint32_t, uint8_t>;

}  // namespace toroid
