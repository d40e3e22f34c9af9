"""The operations that programs are made of, strict about shapes and dtypes: an index."""

from pullback.lax.compare_select import (
    and_p as and_p,
)
from pullback.lax.compare_select import (
    bitwise_and as bitwise_and,
)
from pullback.lax.compare_select import (
    bitwise_not as bitwise_not,
)
from pullback.lax.compare_select import (
    bitwise_or as bitwise_or,
)
from pullback.lax.compare_select import (
    bitwise_xor as bitwise_xor,
)
from pullback.lax.compare_select import (
    clamp as clamp,
)
from pullback.lax.compare_select import (
    clamp_p as clamp_p,
)
from pullback.lax.compare_select import (
    clz as clz,
)
from pullback.lax.compare_select import (
    clz_p as clz_p,
)
from pullback.lax.compare_select import (
    eq as eq,
)
from pullback.lax.compare_select import (
    eq_p as eq_p,
)
from pullback.lax.compare_select import (
    eq_to_p as eq_to_p,
)
from pullback.lax.compare_select import (
    ge as ge,
)
from pullback.lax.compare_select import (
    ge_p as ge_p,
)
from pullback.lax.compare_select import (
    gt as gt,
)
from pullback.lax.compare_select import (
    gt_p as gt_p,
)
from pullback.lax.compare_select import (
    is_finite as is_finite,
)
from pullback.lax.compare_select import (
    is_finite_p as is_finite_p,
)
from pullback.lax.compare_select import (
    le as le,
)
from pullback.lax.compare_select import (
    le_p as le_p,
)
from pullback.lax.compare_select import (
    le_to_p as le_to_p,
)
from pullback.lax.compare_select import (
    lt as lt,
)
from pullback.lax.compare_select import (
    lt_p as lt_p,
)
from pullback.lax.compare_select import (
    lt_to_p as lt_to_p,
)
from pullback.lax.compare_select import (
    mulhi as mulhi,
)
from pullback.lax.compare_select import (
    mulhi_p as mulhi_p,
)
from pullback.lax.compare_select import (
    ne as ne,
)
from pullback.lax.compare_select import (
    ne_p as ne_p,
)
from pullback.lax.compare_select import (
    nextafter as nextafter,
)
from pullback.lax.compare_select import (
    nextafter_p as nextafter_p,
)
from pullback.lax.compare_select import (
    not_p as not_p,
)
from pullback.lax.compare_select import (
    or_p as or_p,
)
from pullback.lax.compare_select import (
    population_count as population_count,
)
from pullback.lax.compare_select import (
    population_count_p as population_count_p,
)
from pullback.lax.compare_select import (
    select as select,
)
from pullback.lax.compare_select import (
    select_n as select_n,
)
from pullback.lax.compare_select import (
    select_n_p as select_n_p,
)
from pullback.lax.compare_select import (
    shift_left as shift_left,
)
from pullback.lax.compare_select import (
    shift_left_p as shift_left_p,
)
from pullback.lax.compare_select import (
    shift_right_arithmetic as shift_right_arithmetic,
)
from pullback.lax.compare_select import (
    shift_right_arithmetic_p as shift_right_arithmetic_p,
)
from pullback.lax.compare_select import (
    shift_right_logical as shift_right_logical,
)
from pullback.lax.compare_select import (
    shift_right_logical_p as shift_right_logical_p,
)
from pullback.lax.compare_select import (
    xor_p as xor_p,
)
from pullback.lax.complex import (
    abs as abs,
)
from pullback.lax.complex import (
    abs_p as abs_p,
)
from pullback.lax.complex import (
    complex as complex,
)
from pullback.lax.complex import (
    complex_p as complex_p,
)
from pullback.lax.complex import (
    conj as conj,
)
from pullback.lax.complex import (
    conj_p as conj_p,
)
from pullback.lax.complex import (
    imag as imag,
)
from pullback.lax.complex import (
    imag_p as imag_p,
)
from pullback.lax.complex import (
    real as real,
)
from pullback.lax.complex import (
    real_p as real_p,
)
from pullback.lax.complex import (
    sign as sign,
)
from pullback.lax.complex import (
    sign_p as sign_p,
)
from pullback.lax.convert import (
    bitcast_convert_type as bitcast_convert_type,
)
from pullback.lax.convert import (
    bitcast_convert_type_p as bitcast_convert_type_p,
)
from pullback.lax.convert import (
    convert_element_type as convert_element_type,
)
from pullback.lax.convert import (
    convert_element_type_p as convert_element_type_p,
)
from pullback.lax.convert import (
    copy_p as copy_p,
)
from pullback.lax.convert import (
    reduce_precision as reduce_precision,
)
from pullback.lax.convert import (
    reduce_precision_p as reduce_precision_p,
)
from pullback.lax.convert import (
    stop_gradient as stop_gradient,
)
from pullback.lax.convert import (
    stop_gradient_p as stop_gradient_p,
)
from pullback.lax.elementwise import (
    AccuracyMode as AccuracyMode,
)
from pullback.lax.elementwise import (
    RoundingMethod as RoundingMethod,
)
from pullback.lax.elementwise import (
    Tolerance as Tolerance,
)
from pullback.lax.elementwise import (
    add as add,
)
from pullback.lax.elementwise import (
    add_p as add_p,
)
from pullback.lax.elementwise import (
    cbrt as cbrt,
)
from pullback.lax.elementwise import (
    cbrt_p as cbrt_p,
)
from pullback.lax.elementwise import (
    ceil as ceil,
)
from pullback.lax.elementwise import (
    ceil_p as ceil_p,
)
from pullback.lax.elementwise import (
    div as div,
)
from pullback.lax.elementwise import (
    div_p as div_p,
)
from pullback.lax.elementwise import (
    floor as floor,
)
from pullback.lax.elementwise import (
    floor_p as floor_p,
)
from pullback.lax.elementwise import (
    integer_pow as integer_pow,
)
from pullback.lax.elementwise import (
    integer_pow_p as integer_pow_p,
)
from pullback.lax.elementwise import (
    max as max,
)
from pullback.lax.elementwise import (
    max_p as max_p,
)
from pullback.lax.elementwise import (
    min as min,
)
from pullback.lax.elementwise import (
    min_p as min_p,
)
from pullback.lax.elementwise import (
    mul as mul,
)
from pullback.lax.elementwise import (
    mul_p as mul_p,
)
from pullback.lax.elementwise import (
    neg as neg,
)
from pullback.lax.elementwise import (
    neg_p as neg_p,
)
from pullback.lax.elementwise import (
    reciprocal as reciprocal,
)
from pullback.lax.elementwise import (
    rem as rem,
)
from pullback.lax.elementwise import (
    rem_p as rem_p,
)
from pullback.lax.elementwise import (
    round as round,
)
from pullback.lax.elementwise import (
    round_p as round_p,
)
from pullback.lax.elementwise import (
    rsqrt as rsqrt,
)
from pullback.lax.elementwise import (
    rsqrt_p as rsqrt_p,
)
from pullback.lax.elementwise import (
    sqrt as sqrt,
)
from pullback.lax.elementwise import (
    sqrt_p as sqrt_p,
)
from pullback.lax.elementwise import (
    square as square,
)
from pullback.lax.elementwise import (
    square_p as square_p,
)
from pullback.lax.elementwise import (
    sub as sub,
)
from pullback.lax.elementwise import (
    sub_p as sub_p,
)
from pullback.lax.transcendental import (
    acos as acos,
)
from pullback.lax.transcendental import (
    acos_p as acos_p,
)
from pullback.lax.transcendental import (
    acosh as acosh,
)
from pullback.lax.transcendental import (
    acosh_p as acosh_p,
)
from pullback.lax.transcendental import (
    asin as asin,
)
from pullback.lax.transcendental import (
    asin_p as asin_p,
)
from pullback.lax.transcendental import (
    asinh as asinh,
)
from pullback.lax.transcendental import (
    asinh_p as asinh_p,
)
from pullback.lax.transcendental import (
    atan as atan,
)
from pullback.lax.transcendental import (
    atan2 as atan2,
)
from pullback.lax.transcendental import (
    atan2_p as atan2_p,
)
from pullback.lax.transcendental import (
    atan_p as atan_p,
)
from pullback.lax.transcendental import (
    atanh as atanh,
)
from pullback.lax.transcendental import (
    atanh_p as atanh_p,
)
from pullback.lax.transcendental import (
    cos as cos,
)
from pullback.lax.transcendental import (
    cos_p as cos_p,
)
from pullback.lax.transcendental import (
    cosh as cosh,
)
from pullback.lax.transcendental import (
    cosh_p as cosh_p,
)
from pullback.lax.transcendental import (
    exp as exp,
)
from pullback.lax.transcendental import (
    exp2 as exp2,
)
from pullback.lax.transcendental import (
    exp2_p as exp2_p,
)
from pullback.lax.transcendental import (
    exp_p as exp_p,
)
from pullback.lax.transcendental import (
    expm1 as expm1,
)
from pullback.lax.transcendental import (
    expm1_p as expm1_p,
)
from pullback.lax.transcendental import (
    log as log,
)
from pullback.lax.transcendental import (
    log1p as log1p,
)
from pullback.lax.transcendental import (
    log1p_p as log1p_p,
)
from pullback.lax.transcendental import (
    log_p as log_p,
)
from pullback.lax.transcendental import (
    logistic as logistic,
)
from pullback.lax.transcendental import (
    logistic_p as logistic_p,
)
from pullback.lax.transcendental import (
    pow as pow,
)
from pullback.lax.transcendental import (
    pow_p as pow_p,
)
from pullback.lax.transcendental import (
    sin as sin,
)
from pullback.lax.transcendental import (
    sin_p as sin_p,
)
from pullback.lax.transcendental import (
    sinh as sinh,
)
from pullback.lax.transcendental import (
    sinh_p as sinh_p,
)
from pullback.lax.transcendental import (
    tan as tan,
)
from pullback.lax.transcendental import (
    tan_p as tan_p,
)
from pullback.lax.transcendental import (
    tanh as tanh,
)
from pullback.lax.transcendental import (
    tanh_p as tanh_p,
)
