// Decompositions of matrices as kernels of programs.
#include "library/linalg/kernels.h"
#include "runtime/kernels/linked/library_calls.h"
#include "runtime/kernels/linked/linked_kernels.h"

namespace toroid {

TOROID_LINKED_KERNEL(linalg_cholesky, "library.linalg.cholesky", nullptr, plan_on_contiguous<linalg::cholesky>);
TOROID_LINKED_KERNEL(linalg_cholesky_solve, "library.linalg.cholesky_solve", nullptr, plan_on_contiguous<linalg::cholesky_solve>);
TOROID_LINKED_KERNEL(linalg_cholesky_inverse, "library.linalg.cholesky_inverse", nullptr, plan_on_contiguous<linalg::cholesky_inverse>);
TOROID_LINKED_KERNEL(linalg_qr, "library.linalg.qr", nullptr, plan_on_contiguous<linalg::qr>);
TOROID_LINKED_KERNEL(linalg_geqrf, "library.linalg.geqrf", nullptr, plan_on_contiguous<linalg::geqrf>);
TOROID_LINKED_KERNEL(linalg_householder_product, "library.linalg.householder_product", nullptr,
                     plan_on_contiguous<linalg::householder_product>);
TOROID_LINKED_KERNEL(linalg_ormqr, "library.linalg.ormqr", nullptr, plan_on_contiguous<linalg::ormqr>);
TOROID_LINKED_KERNEL(linalg_svd, "library.linalg.svd", nullptr, plan_on_contiguous<linalg::svd>);
TOROID_LINKED_KERNEL(linalg_svdvals, "library.linalg.svdvals", nullptr, plan_on_contiguous<linalg::svdvals>);
TOROID_LINKED_KERNEL(linalg_eigh, "library.linalg.eigh", nullptr, plan_on_contiguous<linalg::eigh>);
TOROID_LINKED_KERNEL(linalg_eigvalsh, "library.linalg.eigvalsh", nullptr, plan_on_contiguous<linalg::eigvalsh>);
TOROID_LINKED_KERNEL(linalg_eig, "library.linalg.eig", nullptr, plan_on_contiguous<linalg::eig>);
TOROID_LINKED_KERNEL(linalg_lu_factor, "library.linalg.lu_factor", nullptr, plan_on_contiguous<linalg::lu_factor>);
TOROID_LINKED_KERNEL(linalg_lu_permutation, "library.linalg.lu_permutation", nullptr, plan_on_contiguous<linalg::lu_permutation>);
TOROID_LINKED_KERNEL(linalg_lu_solve, "library.linalg.lu_solve", nullptr, plan_on_contiguous<linalg::lu_solve>);
TOROID_LINKED_KERNEL(linalg_solve, "library.linalg.solve", nullptr, plan_on_contiguous<linalg::solve>);
TOROID_LINKED_KERNEL(linalg_inv, "library.linalg.inv", nullptr, plan_on_contiguous<linalg::inv>);
TOROID_LINKED_KERNEL(linalg_det, "library.linalg.det", nullptr, plan_on_contiguous<linalg::det>);
TOROID_LINKED_KERNEL(linalg_slogdet, "library.linalg.slogdet", nullptr, plan_on_contiguous<linalg::slogdet>);
TOROID_LINKED_KERNEL(linalg_solve_triangular, "library.linalg.solve_triangular", nullptr, plan_on_contiguous<linalg::solve_triangular>);
TOROID_LINKED_KERNEL(linalg_ldl_factor, "library.linalg.ldl_factor", nullptr, plan_on_contiguous<linalg::ldl_factor>);
TOROID_LINKED_KERNEL(linalg_ldl_solve, "library.linalg.ldl_solve", nullptr, plan_on_contiguous<linalg::ldl_solve>);
TOROID_LINKED_KERNEL(linalg_matrix_exp, "library.linalg.matrix_exp", nullptr, plan_on_contiguous<linalg::matrix_exp>);
TOROID_LINKED_KERNEL(linalg_lstsq, "library.linalg.lstsq", nullptr, plan_on_contiguous<linalg::lstsq>);

}  // namespace toroid
