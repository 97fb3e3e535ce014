use std::fmt;

use crate::batch::Shape;

/// What goes from one layer to the next, of one sample. It is shown as PyTorch has it, without the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Word numbers.
    Words,
    /// Height, width, channels.
    Images([usize; 3]),
    /// The columns of a table, as they are in the data.
    Table(usize),
    /// Features. `image` is what they were before they were flattened, if memory has them in that order.
    Rows { features: usize, image: Option<[usize; 3]> },
    /// Features for every word.
    Sequence(usize),
}

impl Flow {
    /// What the data are.
    pub fn of(shape: &Shape) -> Self {
        match *shape {
            Shape::Images { height: 1, width: 1, channels, .. } => Self::Table(channels),
            Shape::Images { height, width, channels, .. } => Self::Images([height, width, channels]),
            Shape::Tagging { .. } | Shape::Texts { .. } => Self::Words,
        }
    }

    /// How many numbers it has, those of one word if it has some for every word.
    pub fn numbers(self) -> usize {
        match self {
            Self::Words => 1,
            Self::Images([height, width, channels]) => height.saturating_mul(width).saturating_mul(channels),
            Self::Table(features) | Self::Rows { features, .. } | Self::Sequence(features) => features,
        }
    }

    /// As an image, if it is one or can pass for one.
    pub(super) fn image(self) -> Option<[usize; 3]> {
        match self {
            Self::Images(size) => Some(size),
            Self::Table(columns) => Some([1, 1, columns]),
            Self::Words | Self::Rows { .. } | Self::Sequence(_) => None,
        }
    }

    /// Height and width of what memory has, also where they were flattened.
    fn places(self) -> [usize; 2] {
        match self {
            Self::Images([height, width, _]) | Self::Rows { image: Some([height, width, _]), .. } => {
                [height, width]
            }
            Self::Words | Self::Table(_) | Self::Rows { image: None, .. } | Self::Sequence(_) => [1, 1],
        }
    }

    /// Whether two can be added.
    pub(super) fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Words, _) | (_, Self::Words) => false,
            (Self::Sequence(a), Self::Sequence(b)) => a == b,
            (Self::Sequence(_), _) | (_, Self::Sequence(_)) => false,
            (Self::Images(a), b) | (b, Self::Images(a)) => b.image() == Some(a),
            (a, b) => a.places() == b.places() && a.numbers() == b.numbers(),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => f.write_str("(words)"),
            Self::Images([height, width, channels]) => write!(f, "({channels}, {height}, {width})"),
            Self::Table(features) | Self::Rows { features, .. } => write!(f, "({features})"),
            Self::Sequence(features) => write!(f, "(words, {features})"),
        }
    }
}
