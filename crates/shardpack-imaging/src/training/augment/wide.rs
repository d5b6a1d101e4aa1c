//! Compiles the loops over pixels for AVX-512, for AVX2, and for every CPU of the target; each call takes the best one of this CPU.
//!
//! Holds at all times: all give the same pixels. The loops are integer arithmetic, or float arithmetic whose order is
//! fixed; the compiler neither reorders floats nor fuses multiplications with additions.

/// Registers that a function is compiled for.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    /// Those of every CPU of the target.
    Usual,
    Avx2,
    /// AVX-512 with its parts F, BW, DQ and VL.
    Avx512,
}

/// The widest registers of this CPU; in tests, of at most [`MOST`].
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn width() -> Width {
    use std::arch::is_x86_feature_detected;
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let width = match (has_avx512, is_x86_feature_detected!("avx2")) {
        (true, true) => Width::Avx512,
        (false, true) => Width::Avx2,
        _ => Width::Usual,
    };
    #[cfg(test)]
    let width = width.min(MOST.get());
    width
}

#[cfg(all(test, target_arch = "x86_64"))]
thread_local! {
    /// The greatest width in tests of this thread.
    pub(super) static MOST: std::cell::Cell<Width> = const { std::cell::Cell::new(Width::Avx512) };
}

/// Defines a function that runs its body with the widest registers of the CPU.
macro_rules! wide {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(unsafe_code, reason = "functions that need AVX2 or AVX-512 are called if the CPU has it")]
        $visibility fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn usual($($argument: $kind),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) $(-> $result)? {
                    usual($($argument),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($argument: $kind),*) $(-> $result)? {
                    usual($($argument),*)
                }
                match $crate::training::augment::wide::width() {
                    $crate::training::augment::wide::Width::Usual => {}
                    // SAFETY: this CPU has AVX2, and the function needs nothing else.
                    $crate::training::augment::wide::Width::Avx2 => return unsafe { avx2($($argument),*) },
                    // SAFETY: this CPU has these parts of AVX-512, and the function needs nothing else.
                    $crate::training::augment::wide::Width::Avx512 => return unsafe { avx512($($argument),*) },
                }
            }
            usual($($argument),*)
        }
    };
}
pub(super) use wide;
