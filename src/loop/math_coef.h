/* Coefficients of math.c, lowest degree first. Fitted at 60 digits by interpolation in Chebyshev nodes, then rounded
 * to the type (_32, _64); the comment gives the error of the whole function that the fit itself
 * leaves, relative. exp_32, tanh_32, erf_32 and log_32 are Lawson-weighted least-squares fits instead.
 *   exp (e^r-1-r)/r^2   tanh_32, erf_32 f(x)/x as quotients in x^2, x <= 9.02 and 3.96, 1 beyond: 2e-8, but that
 *                       erf_32 rises over 1 behind 3.7, by 8e-7 at the end, more than its rounding   tanh_64, sin,
 *                       asin, atan, sinh, asinh, atanh (f(x)-x)/x^3 in x^2   cos
 *                       (cos-1+z/2)/z^2 in z = x^2   acosh (acosh(1+t)/sqrt(2t)-1)/t
 *   erf_64 erf(x)/x in x^2, x <= 1   erfc_64: erfc(a) e^(a^2) in (a-2)/(a+2), a in 1..6   log_32
 *                                    (log(1+f)-f+f^2/2)/f^3   log_64 (2 atanh(s)-2s)/s^3 in s^2 */
#ifndef EK_LOOP_MATH_COEF_H
#define EK_LOOP_MATH_COEF_H
#include <stdint.h>
static const double exp_32[] = {0x1p-1, 0x1.5554dcp-3, 0x1.5554b8p-5, 0x1.120b7p-7, 0x1.6d7542p-10};
static const double tanh_32[] = {1, 0x1.120442p-3, 0x1.c9f858p-9, 0x1.59556p-16, 0x1.c9a3cap-27},
                    tanh_32_below[] = {1, 0x1.de576ap-2, 0x1.a7df24p-6, 0x1.5841dap-12, 0x1.a0b86p-21};
static const double erf_32[] = {0x1.20dd74p+0, 0x1.81c8a2p-3,  0x1.af4f3ap-5,
                                0x1.e6b11ap-9, 0x1.3082a2p-12, 0x1.22b006p-19},
                    erf_32_below[] = {1, 0x1.0023acp-1, 0x1.d091e6p-4, 0x1.e76176p-7, 0x1.306792p-10, 0x1.4bbc74p-15};
static const double log_32[] = {0x1.555546p-2,  -0x1.ffffeep-3, 0x1.99a4e2p-3,  -0x1.55629ap-3, 0x1.233954p-3,
                                -0x1.fb5282p-4, 0x1.e60866p-4,  -0x1.e27ec2p-4, 0x1.1b5c52p-4};
/* e^r, the first two exact, so that e^r - 1 is good near 0, too: 5.4e-6 */
static const double exp_fast[] = {1, 1, 0x1.0006b6p-1, 0x1.571cacp-3, 0x1.522544p-5};
/* erf(x)/x in x^2, x <= 3; x times it is over 1 from 3.01 on, and grows: 3.5e-5 */
static const double erf_fast[] = {0x1.20dbc4p+0,   -0x1.80b88ep-2, 0x1.c93758p-4,   -0x1.a1124p-6, 0x1.1da81cp-8,
                                  -0x1.18e63cp-11, 0x1.70588ap-15, -0x1.1c8fb6p-19, 0x1.844ff2p-25};
/* tanh(x)/x as their quotient, in x^2, x <= 5.2; 1 beyond: 6.5e-5 */
static const double tanh_fast[] = {0x1.fff78ap-1, 0x1.a0f45ap-4, 0x1.559ee8p-11},
                    tanh_fast_below[] = {1, 0x1.bd2dccp-2, 0x1.9dddc4p-7};
static const double exp_64[] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553b6cp-5,
                                0x1.1111111110918p-7,  0x1.6c16c1794e1dcp-10, 0x1.a01a01a83ba17p-13,
                                0x1.a019b621f9d08p-16, 0x1.71de0be2b5e96p-19, 0x1.2894f52583578p-22,
                                0x1.af3ce42b12b24p-26}; /* 2^-55.5 */
static const double tanh_64[] = {
    -0x1.5555555555555p-2, 0x1.11111111110a8p-3, -0x1.ba1ba1ba0f126p-5, 0x1.664f487e0a749p-6, -0x1.226e3473dce5cp-7,
    0x1.d6d39ae3905e2p-9, -0x1.7d9f6f23e8682p-10, 0x1.3526e9ed54da1p-11,
    /* 2^-57.0 */
    -0x1.f243823c8c981p-13, 0x1.8445870f6fe41p-14, -0x1.05bbdae896297p-15, 0x1.b33642a122cddp-18};
static const double erf_64[] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379c1p-2,  0x1.ce2f21a040f66p-4,
                                -0x1.b82ce31203772p-6,  0x1.565bccfa44156p-8,   -0x1.c02db0665e53dp-11,
                                0x1.f9a2be4f731a1p-14,  -0x1.f4ca838adb73bp-17, 0x1.b981d78881a5dp-20,
                                -0x1.5c131500d3f88p-23, 0x1.d76af6ca49787p-27,  -0x1.ac9585a44fe29p-31}; /* 2^-54.6 */
static const double sin_32[] = {-0x1.555556p-3, 0x1.11110ep-7, -0x1.a01388p-13, 0x1.6db388p-19};         /* 2^-28.3 */
static const double sin_64[] = {-0x1.5555555555555p-3, 0x1.1111111110b6cp-7,   -0x1.a01a019e73325p-13,
                                0x1.71de3781495ffp-19, -0x1.ae5ff4f957b14p-26, 0x1.5e0333e3ccba1p-33}; /* 2^-55.5 */
static const double cos_32[] = {0x1.555554p-5, -0x1.6c12bep-10, 0x1.9bcdc6p-16};                       /* 2^-30.0 */
static const double cos_64[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16944p-10, 0x1.a01a019f4671dp-16,
                                -0x1.27e4fa0d3726cp-22, 0x1.1eeb5de1e2b95p-29,  -0x1.9075bb669682cp-37}; /* 2^-59.5 */
static const double asin_32[] = {0x1.555554p-3, 0x1.33343p-4,  0x1.6d5bbap-5,
                                 0x1.fd8da2p-6, 0x1.18f91ep-6, 0x1.13fed4p-5}; /* 2^-28.4 */
static const double asin_64[] = {
    0x1.5555555555556p-3, 0x1.3333333332ecap-4,  0x1.6db6db6e31f13p-5, 0x1.f1c71c1db0623p-6, 0x1.6e8bb1c8209a2p-6,
    0x1.1c4d35cf95421p-6, 0x1.c9cf07674736ap-7,  0x1.782651caa6547p-7, 0x1.52420b04b37bep-7, 0x1.65a9c4dfcf8b2p-8,
    0x1.1d189408314eep-6, -0x1.e6aaa8a0a04ccp-7, 0x1.d72b2bc8155f8p-6};                                         /*
    2^-57.4 */
static const double atan_32[] = {-0x1.555554p-2, 0x1.99971ap-3, -0x1.241d1ep-3, 0x1.b7cdc4p-4, -0x1.076a54p-4}; /*
    2^-28.4 */
static const double atan_64[] = {-0x1.5555555555555p-2, 0x1.99999999992b1p-3,  -0x1.249249242e44ap-3,
                                 0x1.c71c718053ec6p-4,  -0x1.745d0a620f485p-4, 0x1.3b125117d4164p-4,
                                 -0x1.10f97c604830ap-4, 0x1.dfd550f02f5dap-5,  -0x1.a0413ef02020ep-5,
                                 0x1.4064bd87c0666p-5,  -0x1.37c6a16c693p-6};                 /* 2^-56.8 */
static const double sinh_32[] = {0x1.555556p-3, 0x1.11111ep-7, 0x1.a009p-13, 0x1.78a70ep-19}; /* 2^-27.7 */
static const double sinh_64[] = {0x1.5555555555555p-3, 0x1.11111111110fdp-7, 0x1.a01a01a01ee7p-13,
                                 /* 2^-56.4 */
                                 0x1.71de3a4e14f4p-19, 0x1.ae6460fae3728p-26, 0x1.611cb330c1fe8p-33,
                                 0x1.b41232cf9950fp-41};
static const double asinh_32[] = {-0x1.555552p-3, 0x1.332ed2p-4, -0x1.6c98ecp-5, 0x1.d79732p-6, -0x1.d434b2p-7}; /*
    2^-27.7 */
static const double asinh_64[] = {
    -0x1.5555555555555p-3, 0x1.3333333332f5fp-4, -0x1.6db6db6d5b365p-5, 0x1.f1c71c3bee026p-6, -0x1.6e8b9ab4638efp-6,
    0x1.1c4e072f36dc7p-6, -0x1.c983b8d12e853p-7, 0x1.79b0dbdcdfc75p-7,
    /* 2^-58.4 */
    -0x1.3a4aeece7e69cp-7, 0x1.f38921b605d54p-8, -0x1.4733e5158e0e1p-8, 0x1.ee3fd77d44d42p-10};
static const double acosh_32[] = {-0x1.555552p-4, 0x1.332ed2p-6, -0x1.6c98ecp-8, 0x1.d79732p-10, -0x1.d434b2p-12}; /*
    2^-27.7 */
static const double acosh_64[] = {-0x1.5555555555555p-4,  0x1.3333333332f5fp-6,   -0x1.6db6db6d5b365p-8,
                                  0x1.f1c71c3bee026p-10,  -0x1.6e8b9ab4638efp-11, 0x1.1c4e072f36dc7p-12,
                                  -0x1.c983b8d12e853p-14, 0x1.79b0dbdcdfc75p-15,  -0x1.3a4aeece7e69cp-16,
                                  0x1.f38921b605d54p-18,  -0x1.4733e5158e0e1p-19, 0x1.ee3fd77d44d42p-22}; /* 2^-58.4 */
static const double atanh_32[] = {0x1.555554p-2, 0x1.999c14p-3, 0x1.242056p-3,
                                  0x1.d5ce5cp-4, 0x1.09f92cp-4, 0x1.4298b2p-3}; /* 2^-27.2 */
static const double atanh_64[] = {
    0x1.5555555555555p-2, 0x1.9999999999ad1p-3, 0x1.249249247e911p-3,  0x1.c71c71d6cc5d1p-4, 0x1.745d1406b992ep-4,
    0x1.3b1417e6e07dfp-4, 0x1.1108e26d64a6dp-4, 0x1.e2c342108eb1fp-5,  0x1.a6c53053bf30cp-5, 0x1.bdcd3cefa72cep-5,
    0x1.92cc88a36f708p-7, 0x1.15aa7698edf42p-3, -0x1.27f230f3831a3p-3, 0x1.b016cba23eee4p-3}; /* 2^-57.4 */
static const double log_64[] = {0x1.5555555555558p-1, 0x1.9999999994e76p-2, 0x1.2492492e6dfddp-2,
                                /* 2^-57.4 */
                                0x1.c71c6247410e3p-3, 0x1.7462e17b4cddp-3, 0x1.39f8963ccbdc2p-3, 0x1.2b9f7fb3de73fp-3};
static const double erfc_64[] = {0x1.058671b52c776p-2,   -0x1.b57034efd3f69p-2,  0x1.eeea7dc8a7932p-3,
                                 -0x1.437f0b68c2dcp-4,   0x1.e9471595c0b9dp-9,   0x1.ca95ed5c92a4bp-8,
                                 -0x1.bc25a2a5685b8p-11, -0x1.016b61e9c90a9p-10, 0x1.6d5bf00483674p-15,
                                 0x1.6dac8e32716eep-13,  0x1.ce18d5b499621p-16,  -0x1.cfd845cfda3f9p-16,
                                 -0x1.d8072f8b2af1ep-17, 0x1.e89749bb276c3p-20,  0x1.06de90fce20e3p-18}; /* 2^-56.6 */
/* Bits of 2/pi after the point. */
static const uint64_t two_over_pi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                       0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                       0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                       0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                       0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
#endif
