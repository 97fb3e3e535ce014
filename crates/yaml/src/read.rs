use std::marker::PhantomData;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::error::YamlError;
use crate::key_path::below;
use crate::node::{Meaning, YamlData, YamlEntry, YamlNode, YamlPlace};

/// Hands a value of the tree to serde, and adds its place to whatever serde finds wrong with it.
#[derive(Clone, Copy)]
pub(crate) struct NodeReader<'a> {
    origin: &'a str,
    node: &'a YamlNode,
    path: &'a str,
}

impl<'a> NodeReader<'a> {
    pub(crate) fn new(origin: &'a str, root: &'a YamlNode) -> Self {
        Self { origin, node: root, path: "" }
    }

    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, YamlError> {
        self.seed(PhantomData)
    }

    /// Every value is read through here, so the innermost value at fault is the one named.
    fn seed<'de, S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, YamlError> {
        seed.deserialize(self).map_err(|wrong| wrong.at(self.origin, &self.node.place, self.path))
    }

    /// Reads a key of this mapping, or the name of a choice. If it is wrong, that is said of the key, not of
    /// its value.
    fn seed_name<'de, S: DeserializeSeed<'de>>(
        self,
        seed: S,
        name: &str,
        place: &YamlPlace,
    ) -> Result<S::Value, YamlError> {
        let name: StrDeserializer<'_, YamlError> = name.into_deserializer();
        seed.deserialize(name).map_err(|wrong| wrong.at(self.origin, place, self.path))
    }

    fn visit_list<'de, V: Visitor<'de>>(
        self,
        nodes: &'a [YamlNode],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        let mut items = ListItems { list: self, left: nodes.iter(), count: nodes.len() };
        let value = visitor.visit_seq(&mut items)?;
        if items.left.len() > 0 {
            let taken = nodes.len() - items.left.len();
            return Err(YamlError::new(format!("expected a list of {taken} values, found {}", nodes.len())));
        }
        Ok(value)
    }

    fn visit_entries<'de, V: Visitor<'de>>(
        self,
        entries: &'a [YamlEntry],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        visitor.visit_map(MapEntries { map: self, left: entries.iter(), value: None })
    }

    /// A mapping. An empty value will do, because all its keys may have been left to their defaults. Serde would also
    /// take a list of the fields in their order, which nobody could read.
    fn visit_mapping<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match &self.node.data {
            YamlData::Map(entries) => self.visit_entries(entries, visitor),
            YamlData::Scalar(_) if self.node.is_null() => self.visit_entries(&[], visitor),
            data => Err(YamlError::invalid_type(data.unexpected(), &visitor)),
        }
    }

    fn choice(self, known: &[&str]) -> Result<Choice<'a>, YamlError> {
        let found = match &self.node.data {
            YamlData::Scalar(_) if self.node.is_null() => "nothing".to_owned(),
            YamlData::Scalar(scalar) => {
                return Ok(Choice {
                    parent: self,
                    name: &scalar.text,
                    place: &self.node.place,
                    content: None,
                });
            }
            YamlData::Map(entries) => match entries.as_slice() {
                [YamlEntry { key, place, value }] => {
                    return Ok(Choice { parent: self, name: key, place, content: Some(value) });
                }
                [] => "an empty mapping".to_owned(),
                [first, second, ..] => format!(
                    "the keys `{}` and `{}` side by side; options of a choice are indented below it",
                    first.key, second.key
                ),
            },
            YamlData::List(_) => "a list".to_owned(),
        };
        Err(YamlError::new(format!("expected one of {}, found {found}", known.join(", "))))
    }
}

impl<'de> Deserializer<'de> for NodeReader<'_> {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match &self.node.data {
            YamlData::List(items) => self.visit_list(items, visitor),
            YamlData::Map(entries) => self.visit_entries(entries, visitor),
            YamlData::Scalar(scalar) => match scalar.meaning() {
                Meaning::Null => visitor.visit_unit(),
                Meaning::Bool(value) => visitor.visit_bool(value),
                Meaning::Unsigned(value) => visitor.visit_u64(value),
                Meaning::Signed(value) => visitor.visit_i64(value),
                Meaning::Float(value) => visitor.visit_f64(value),
                Meaning::Text(value) => visitor.visit_str(value),
            },
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        // Serde would round what is too large to infinity without a word.
        match &self.node.data {
            YamlData::Scalar(scalar) => match scalar.meaning() {
                Meaning::Float(value) if value.is_finite() && value.abs() > f64::from(f32::MAX) => {
                    Err(YamlError::new(format!(
                        "expected a number of at most {:e}, found {}",
                        f32::MAX,
                        scalar.text
                    )))
                }
                _ => self.deserialize_any(visitor),
            },
            YamlData::List(_) | YamlData::Map(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match &self.node.data {
            // Where text is wanted, `name: 2026` needs no quotes.
            YamlData::Scalar(scalar) if !self.node.is_null() => visitor.visit_str(&scalar.text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.visit_mapping(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        self.visit_mapping(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        visitor.visit_enum(self.choice(known)?)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

struct ListItems<'a> {
    list: NodeReader<'a>,
    left: slice::Iter<'a, YamlNode>,
    count: usize,
}

impl<'de> SeqAccess<'de> for &mut ListItems<'_> {
    type Error = YamlError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, YamlError> {
        let index = self.count - self.left.len();
        let Some(node) = self.left.next() else { return Ok(None) };
        let path = format!("{}[{index}]", self.list.path);
        NodeReader { node, path: &path, ..self.list }.seed(seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct MapEntries<'a> {
    map: NodeReader<'a>,
    left: slice::Iter<'a, YamlEntry>,
    value: Option<&'a YamlEntry>,
}

impl<'de> MapAccess<'de> for MapEntries<'_> {
    type Error = YamlError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, YamlError> {
        let Some(entry) = self.left.next() else { return Ok(None) };
        self.value = Some(entry);
        self.map.seed_name(seed, &entry.key, &entry.place).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, YamlError> {
        let Some(entry) = self.value.take() else {
            return Err(YamlError::new("a value was asked for before its key"));
        };
        let path = below(self.map.path, &entry.key);
        NodeReader { node: &entry.value, path: &path, ..self.map }.seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

/// One of several alternatives: a bare name, or a mapping of the name to its options.
struct Choice<'a> {
    parent: NodeReader<'a>,
    name: &'a str,
    place: &'a YamlPlace,
    content: Option<&'a YamlNode>,
}

impl Choice<'_> {
    /// A bare name reads like one with an empty value behind it.
    fn read<T>(self, read: impl FnOnce(NodeReader<'_>) -> Result<T, YamlError>) -> Result<T, YamlError> {
        let nothing = YamlNode::null(self.place.clone());
        let path = below(self.parent.path, self.name);
        let reader = NodeReader { node: self.content.unwrap_or(&nothing), path: &path, ..self.parent };
        read(reader).map_err(|wrong| wrong.at(reader.origin, &reader.node.place, reader.path))
    }
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = YamlError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), YamlError> {
        let name = self.parent.seed_name(seed, self.name, self.place)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = YamlError;

    fn unit_variant(self) -> Result<(), YamlError> {
        self.read(|content| match &content.node.data {
            YamlData::Map(entries) if entries.is_empty() => Ok(()),
            _ if content.node.is_null() => Ok(()),
            _ => Err(YamlError::new("this choice takes no options")),
        })
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, YamlError> {
        self.read(|content| content.seed(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, YamlError> {
        self.read(|content| content.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        self.read(|content| content.visit_mapping(visitor))
    }
}
