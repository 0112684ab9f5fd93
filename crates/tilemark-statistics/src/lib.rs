//! Pure arithmetic on figures, and the judge that turns them into a verdict and an answer.
