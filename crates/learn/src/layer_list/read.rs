//! Layers as they are written: a bare name, a name with one number, or a name with options; in a mapping also with
//! what the layer is called.

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

use super::item::{InitSpec, LayerItem, LayerSpec};
use super::options::{Shortcut, Sides, whole};
use super::{LayerList, Repeat};
use crate::layers::Function;

/// Options that may be given short.
pub(super) trait ShortForm: DeserializeOwned {
    /// What would be right, in words.
    const EXPECTED: &'static str;

    fn of_nothing() -> Option<Self> {
        None
    }

    fn of_number(_: f64) -> Option<Self> {
        None
    }

    fn of_text(_: &str) -> Option<Self> {
        None
    }

    fn of_list(_: Vec<LayerItem>) -> Option<Self> {
        None
    }
}

/// Reads options in any of their forms.
struct AnyForm<T>(PhantomData<T>);

impl<'de, T: ShortForm> DeserializeSeed<'de> for AnyForm<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: ShortForm> Visitor<'de> for AnyForm<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        T::of_nothing().ok_or_else(|| E::invalid_type(Unexpected::Unit, &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::of_number(number as f64).ok_or_else(|| E::invalid_type(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::of_number(number as f64).ok_or_else(|| E::invalid_type(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        T::of_number(number).ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::of_text(text).ok_or_else(|| E::invalid_type(Unexpected::Str(text), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        T::of_list(items).ok_or_else(|| A::Error::invalid_type(Unexpected::Seq, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// The keys of an item: the layers, and what is said beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
pub(super) enum Key {
    Conv2d,
    #[serde(alias = "batch_norm2d", alias = "batch_norm1d")]
    BatchNorm,
    Relu,
    Tanh,
    Sigmoid,
    Gelu,
    Silu,
    LeakyRelu,
    Elu,
    MaxPool2d,
    AvgPool2d,
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    GlobalAvgPool,
    Flatten,
    Dropout,
    Linear,
    Embedding,
    Gru,
    Lstm,
    LastWord,
    LastStep,
    Residual,
    Sequential,
    Repeat,
    Softmax,
    Binary,
    Name,
    Init,
}

/// What follows the key of a layer.
trait Content<'de> {
    type Error: Error;

    fn read<T: ShortForm>(&mut self) -> Result<T, Self::Error>;

    fn sides(&mut self) -> Result<Sides, Self::Error>;
}

/// The value in a mapping.
struct MapContent<'m, A>(&'m mut A);

impl<'de, A: MapAccess<'de>> Content<'de> for MapContent<'_, A> {
    type Error = A::Error;

    fn read<T: ShortForm>(&mut self) -> Result<T, A::Error> {
        self.0.next_value_seed(AnyForm(PhantomData))
    }

    fn sides(&mut self) -> Result<Sides, A::Error> {
        self.0.next_value()
    }
}

/// Nothing: the name stood alone.
struct Nothing<E>(PhantomData<E>);

impl<E: Error> Content<'_> for Nothing<E> {
    type Error = E;

    fn read<T: ShortForm>(&mut self) -> Result<T, E> {
        AnyForm(PhantomData).visit_unit()
    }

    fn sides(&mut self) -> Result<Sides, E> {
        Err(E::invalid_type(Unexpected::Unit, &SidesVisitor))
    }
}

/// A layer that has no options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

impl ShortForm for NoOptions {
    const EXPECTED: &'static str = "no options";

    fn of_nothing() -> Option<Self> {
        Some(Self {})
    }
}

/// One number, or none.
#[derive(Deserialize)]
#[serde(transparent)]
struct OneNumber(Option<f32>);

impl ShortForm for OneNumber {
    const EXPECTED: &'static str = "a number, or nothing";

    fn of_nothing() -> Option<Self> {
        Some(Self(None))
    }

    fn of_number(number: f64) -> Option<Self> {
        Some(Self(Some(number as f32)))
    }
}

impl ShortForm for LayerList {
    const EXPECTED: &'static str = "a list of layers";

    fn of_list(items: Vec<LayerItem>) -> Option<Self> {
        Some(Self(items))
    }
}

/// Reads the layer of a key; none if the key is not a layer's.
fn layer<'de, C: Content<'de>>(key: Key, mut content: C) -> Result<Option<LayerSpec>, C::Error> {
    let plain = |content: &mut C, spec: LayerSpec| content.read::<NoOptions>().map(|_| spec);
    let function = |content: &mut C, function| plain(content, LayerSpec::Function(function));
    Ok(Some(match key {
        Key::Conv2d => LayerSpec::Conv2d(content.read()?),
        Key::BatchNorm => LayerSpec::BatchNorm(content.read()?),
        Key::Relu => function(&mut content, Function::Relu)?,
        Key::Tanh => function(&mut content, Function::Tanh)?,
        Key::Sigmoid => function(&mut content, Function::Sigmoid)?,
        Key::Gelu => function(&mut content, Function::Gelu)?,
        Key::Silu => function(&mut content, Function::Silu)?,
        Key::LeakyRelu => {
            LayerSpec::Function(Function::LeakyRelu(content.read::<OneNumber>()?.0.unwrap_or(0.01)))
        }
        Key::Elu => LayerSpec::Function(Function::Elu(content.read::<OneNumber>()?.0.unwrap_or(1.0))),
        Key::MaxPool2d => LayerSpec::MaxPool2d(content.read()?),
        Key::AvgPool2d => LayerSpec::AvgPool2d(content.read()?),
        Key::AdaptiveAvgPool2d => LayerSpec::AdaptiveAvgPool2d(content.sides()?),
        Key::AdaptiveMaxPool2d => LayerSpec::AdaptiveMaxPool2d(content.sides()?),
        Key::GlobalAvgPool => plain(&mut content, LayerSpec::GlobalAvgPool)?,
        Key::Flatten => plain(&mut content, LayerSpec::Flatten)?,
        Key::Dropout => LayerSpec::Dropout(content.read::<OneNumber>()?.0.unwrap_or(0.5)),
        Key::Linear => LayerSpec::Linear(content.read()?),
        Key::Embedding => LayerSpec::Embedding(content.read()?),
        Key::Gru => LayerSpec::Gru(content.read()?),
        Key::Lstm => LayerSpec::Lstm(content.read()?),
        Key::LastWord => plain(&mut content, LayerSpec::LastWord)?,
        Key::LastStep => plain(&mut content, LayerSpec::LastStep)?,
        Key::Residual => LayerSpec::Residual(content.read()?),
        Key::Sequential => LayerSpec::Sequential(content.read()?),
        Key::Repeat => LayerSpec::Repeat(content.read::<Repeat>()?),
        Key::Softmax => plain(&mut content, LayerSpec::Softmax)?,
        Key::Binary => LayerSpec::Binary(content.read()?),
        Key::Name | Key::Init => return Ok(None),
    }))
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = LayerItem;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a layer, such as `relu` or `linear: 10`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<LayerItem, E> {
        let deserializer: StrDeserializer<'_, E> = name.into_deserializer();
        let key = Key::deserialize(deserializer)?;
        match layer(key, Nothing(PhantomData))? {
            Some(layer) => Ok(LayerItem::new(layer)),
            None => Err(E::invalid_value(Unexpected::Str(name), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LayerItem, A::Error> {
        let (mut found, mut name, mut init) = (None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Name => name = Some(map.next_value::<String>()?),
                Key::Init => init = Some(map.next_value::<InitSpec>()?),
                key => {
                    let layer = layer(key, MapContent(&mut map))?;
                    if found.is_some() {
                        return Err(A::Error::custom(
                            "two layers side by side: each layer is an item of the list, with a dash of its own",
                        ));
                    }
                    found = layer;
                }
            }
        }
        let Some(layer) = found else {
            return Err(A::Error::custom("expected a layer beside `name`, such as `linear: 10`"));
        };
        Ok(LayerItem { name, init, ..LayerItem::new(layer) })
    }
}

impl<'de> Deserialize<'de> for LayerItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct SidesVisitor;

impl<'de> Visitor<'de> for SidesVisitor {
    type Value = Sides;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the side of the result, or [height, width]")
    }

    fn visit_u64<E: Error>(self, side: u64) -> Result<Sides, E> {
        let wrong = E::invalid_value(Unexpected::Unsigned(side), &self);
        whole(side as f64).map(|side| Sides([side; 2])).ok_or(wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sides, A::Error> {
        let mut side = || list.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self));
        Ok(Sides([side()?, side()?]))
    }
}

impl<'de> Deserialize<'de> for Sides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SidesVisitor)
    }
}

impl Serialize for Sides {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

struct ShortcutVisitor;

impl<'de> Visitor<'de> for ShortcutVisitor {
    type Value = Shortcut;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of layers, or `subsample`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Shortcut, E> {
        if text == "subsample" {
            return Ok(Shortcut::Subsample);
        }
        Err(E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shortcut, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Shortcut::Layers(LayerList(items)))
    }
}

impl<'de> Deserialize<'de> for Shortcut {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShortcutVisitor)
    }
}

impl Serialize for Shortcut {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Subsample => serializer.serialize_str("subsample"),
            Self::Layers(layers) => layers.serialize(serializer),
        }
    }
}
