"""The operations that programs are made of, strict about shapes and dtypes: an index."""

# ruff: noqa: F401

# Evaluation: the core runs nothing until this is loaded.
import pullback.xla.dispatch
from pullback.core.index import public_names
from pullback.lax import linalg
from pullback.lax.associative import associative_scan
from pullback.lax.axis_names import axis_size
from pullback.lax.callback import debug_callback_p, io_callback_p, pure_callback_p
from pullback.lax.collective import (
    all_gather_p,
    all_to_all_p,
    axis_index_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_p,
    reduce_scatter_p,
)
from pullback.lax.collective_public import (
    all_gather,
    all_to_all,
    axis_index,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    pshuffle,
    psum,
    psum_scatter,
    pswapaxes,
)
from pullback.lax.compare_select import (
    and_p,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clamp,
    clamp_p,
    clz,
    clz_p,
    eq,
    eq_p,
    eq_to_p,
    ge,
    ge_p,
    gt,
    gt_p,
    is_finite,
    is_finite_p,
    le,
    le_p,
    le_to_p,
    lt,
    lt_p,
    lt_to_p,
    mulhi,
    mulhi_p,
    ne,
    ne_p,
    nextafter,
    nextafter_p,
    not_p,
    or_p,
    population_count,
    population_count_p,
    select,
    select_n,
    select_n_p,
    shift_left,
    shift_left_p,
    shift_right_arithmetic,
    shift_right_arithmetic_p,
    shift_right_logical,
    shift_right_logical_p,
    xor_p,
)
from pullback.lax.complex import (
    abs,
    abs_p,
    complex,
    complex_p,
    conj,
    conj_p,
    imag,
    imag_p,
    real,
    real_p,
    sign,
    sign_p,
)
from pullback.lax.control_flow import cond, cond_p, platform_dependent, switch
from pullback.lax.conv import (
    conv_general_dilated,
    conv_general_dilated_p,
)
from pullback.lax.conv_public import (
    conv,
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_transpose,
    conv_with_general_padding,
)
from pullback.lax.conv_shapes import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose_shape_tuple,
    padtype_to_pads,
)
from pullback.lax.convert import (
    bitcast_convert_type,
    bitcast_convert_type_p,
    convert_element_type,
    convert_element_type_p,
    copy_p,
    reduce_precision,
    reduce_precision_p,
    stop_gradient,
    stop_gradient_p,
)
from pullback.lax.cumulative import (
    cumlogsumexp,
    cumlogsumexp_p,
    cummax,
    cummax_p,
    cummin,
    cummin_p,
    cumprod,
    cumprod_p,
    cumsum,
    cumsum_p,
)
from pullback.lax.custom_rules import custom_jvp_call_p, custom_lin_p, custom_vjp_call_p
from pullback.lax.dot import (
    batch_matmul,
    dot,
    dot_general,
    dot_general_p,
)
from pullback.lax.dynamic_slice import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
)
from pullback.lax.elementwise import (
    AccuracyMode,
    RoundingMethod,
    Tolerance,
    add,
    add_p,
    cbrt,
    cbrt_p,
    ceil,
    ceil_p,
    div,
    div_p,
    floor,
    floor_p,
    integer_pow,
    integer_pow_p,
    max,
    max_p,
    min,
    min_p,
    mul,
    mul_p,
    neg,
    neg_p,
    reciprocal,
    rem,
    rem_p,
    round,
    round_p,
    rsqrt,
    rsqrt_p,
    sqrt,
    sqrt_p,
    square,
    square_p,
    sub,
    sub_p,
)
from pullback.lax.fft import (
    FftType,
    fft,
    fft_p,
)
from pullback.lax.fill import (
    broadcasted_iota,
    empty,
    full,
    full_like,
    iota,
    iota_p,
    zeros_like_array,
)
from pullback.lax.gamma import (
    digamma,
    digamma_p,
    lgamma,
    lgamma_p,
    polygamma,
    polygamma_p,
    zeta,
    zeta_p,
)
from pullback.lax.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    gather,
    gather_p,
    index_take,
)
from pullback.lax.linear_solve import custom_linear_solve, custom_root, linear_solve_p
from pullback.lax.loops import fori_loop, map, scan
from pullback.lax.precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
    PrecisionLike,
)
from pullback.lax.ragged_dot import (
    RaggedDotDimensionNumbers,
    ragged_dot,
    ragged_dot_general,
    scaled_dot,
)
from pullback.lax.reduce import (
    argmax,
    argmax_p,
    argmin,
    argmin_p,
    reduce_and,
    reduce_and_p,
    reduce_max,
    reduce_max_p,
    reduce_min,
    reduce_min_p,
    reduce_or,
    reduce_or_p,
    reduce_prod,
    reduce_prod_p,
    reduce_xor,
    reduce_xor_p,
)
from pullback.lax.reduce_generic import (
    reduce,
    reduce_p,
)
from pullback.lax.remat import checkpoint_p, name_p, optimization_barrier, optimization_barrier_p
from pullback.lax.rng import RandomAlgorithm, rng_bit_generator, rng_bit_generator_p
from pullback.lax.scan import scan_p
from pullback.lax.scatter import (
    scatter,
    scatter_add,
    scatter_add_p,
    scatter_max,
    scatter_max_p,
    scatter_min,
    scatter_min_p,
    scatter_mul,
    scatter_mul_p,
    scatter_p,
    scatter_sub,
    scatter_sub_p,
)
from pullback.lax.scatter_apply import (
    scatter_apply,
    scatter_apply_p,
)
from pullback.lax.scatter_rules import (
    ScatterDimensionNumbers,
)
from pullback.lax.select_window import (
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from pullback.lax.shape import (
    broadcast,
    broadcast_in_dim,
    broadcast_in_dim_p,
    broadcast_shapes,
    broadcast_to_rank,
    collapse,
    expand_dims,
    reduce_sum,
    reduce_sum_p,
    reshape,
    reshape_p,
    rev,
    rev_p,
    squeeze,
    squeeze_p,
    transpose,
    transpose_p,
)
from pullback.lax.slice import (
    concatenate,
    concatenate_p,
    index_in_dim,
    pad,
    pad_p,
    slice,
    slice_in_dim,
    slice_p,
    split,
    split_p,
)
from pullback.lax.sort import (
    approx_max_k,
    approx_min_k,
    sort,
    sort_key_val,
    sort_p,
    top_k,
    top_k_p,
)
from pullback.lax.special import (
    bessel_i0e,
    bessel_i0e_p,
    bessel_i1e,
    bessel_i1e_p,
    betainc,
    erf,
    erf_inv,
    erf_inv_p,
    erf_p,
    erfc,
    erfc_p,
    igamma,
    igamma_grad_a,
    igamma_grad_a_p,
    igamma_p,
    igammac,
    igammac_p,
    random_gamma_grad,
    regularized_incomplete_beta_p,
)
from pullback.lax.spmd import shard_map_p
from pullback.lax.stack import (
    stack,
    stack_p,
    tile,
    tile_p,
    unstack,
    unstack_p,
)
from pullback.lax.transcendental import (
    acos,
    acos_p,
    acosh,
    acosh_p,
    asin,
    asin_p,
    asinh,
    asinh_p,
    atan,
    atan2,
    atan2_p,
    atan_p,
    atanh,
    atanh_p,
    cos,
    cos_p,
    cosh,
    cosh_p,
    exp,
    exp2,
    exp2_p,
    exp_p,
    expm1,
    expm1_p,
    log,
    log1p,
    log1p_p,
    log_p,
    logistic,
    logistic_p,
    pow,
    pow_p,
    sin,
    sin_p,
    sinh,
    sinh_p,
    tan,
    tan_p,
    tanh,
    tanh_p,
)
from pullback.lax.while_loop import while_loop, while_p
from pullback.lax.window import (
    reduce_window,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_p,
    reduce_window_shape_tuple,
    reduce_window_sum_p,
)


def __dir__() -> list[str]:
    return public_names(globals(), "linalg")
