#include "library/library_ops.h"

#include "library/collectives/collectives.h"
#include "library/device_copy.h"
#include "library/linalg/kernels.h"
#include "library/random/random_kernels.h"
#include "library/regions.h"
#include "library/weights.h"

namespace toroid {
namespace {

constexpr LibraryOp kLibraryOps[] = {
    {"collectives.all_reduce", collectives::all_reduce},
    {"collectives.all_gather", collectives::all_gather},
    {"collectives.reduce_scatter", collectives::reduce_scatter},
    {"collectives.all_to_all", collectives::all_to_all},
    {"collectives.broadcast", collectives::broadcast},
    {"collectives.swap", collectives::swap},
    {kDeviceCopy, device::copy},
    {"linalg.cholesky", linalg::cholesky},
    {"linalg.cholesky_solve", linalg::cholesky_solve},
    {"linalg.cholesky_inverse", linalg::cholesky_inverse},
    {"linalg.qr", linalg::qr},
    {"linalg.geqrf", linalg::geqrf},
    {"linalg.householder_product", linalg::householder_product},
    {"linalg.ormqr", linalg::ormqr},
    {"linalg.svd", linalg::svd},
    {"linalg.svdvals", linalg::svdvals},
    {"linalg.eigh", linalg::eigh},
    {"linalg.eigvalsh", linalg::eigvalsh},
    {"linalg.eig", linalg::eig},
    {"linalg.lu_factor", linalg::lu_factor},
    {"linalg.lu_permutation", linalg::lu_permutation},
    {"linalg.lu_solve", linalg::lu_solve},
    {"linalg.solve", linalg::solve},
    {"linalg.inv", linalg::inv},
    {"linalg.det", linalg::det},
    {"linalg.slogdet", linalg::slogdet},
    {"linalg.solve_triangular", linalg::solve_triangular},
    {"linalg.ldl_factor", linalg::ldl_factor},
    {"linalg.ldl_solve", linalg::ldl_solve},
    {"linalg.matrix_exp", linalg::matrix_exp},
    {"linalg.lstsq", linalg::lstsq},
    {"regions.suppress", regions::suppress},
    {"regions.align", regions::align},
    {"regions.align_backward", regions::align_backward},
    {"regions.max", regions::max},
    {"regions.mean", regions::mean},
    {"regions.mean_backward", regions::mean_backward},
    {"random.require", random_kernels::require},
    {"random.poisson", random_kernels::poisson},
    {"random.binomial", random_kernels::binomial},
    {"random.gamma", random_kernels::gamma},
    {"random.permutation", random_kernels::permutation},
    {"weights.scale", weights::scale},
    {"weights.join", weights::join},
};

}  // namespace

Span<const LibraryOp> library_ops() { return kLibraryOps; }

const LibraryOp* find_library_op(std::string_view name) {
  for (const LibraryOp& op : kLibraryOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace toroid
