/* SPDX-License-Identifier: MIT */
/* The code books of the IQ types, packed: an entry has 8 elements of 2 bits, or
   4 elements of 3 bits, element 0 lowest. */
#ifndef PICO_IQ_GRIDS_H
#define PICO_IQ_GRIDS_H

#include <stdint.h>

/* 8 elements: codes 0, 1, 2 stand for 8, 25, 43. */
extern const uint16_t grid_iq2xxs[256];
extern const uint16_t grid_iq2xs[512];
extern const uint16_t grid_iq2s[1024];
/* 8 elements: codes 0, 1, 2 stand for -1, 0, 1. */
extern const uint16_t grid_iq1s[2048];
/* 4 elements: codes 0 ... 7 stand for 4, 12, 20, 28, 36, 44, 52, 62. */
extern const uint16_t grid_iq3xxs[256];
/* 4 elements: code c stands for 2 c + 1. */
extern const uint16_t grid_iq3s[512];

#endif
