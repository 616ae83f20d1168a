# SPDX-License-Identifier: Apache-2.0
"""Names for the people of entry templates: <first> and <last>. ASCII, no blanks."""

from __future__ import annotations

FIRST = """
Ada Adam Agnes Ahmed Aiko Alan Alba Albert Alice Amara Amir Ana Andre Anita Anna Anton
Arjun Astrid Aya Bao Barbara Beatriz Ben Birgit Boris Bruno Camila Carla Carlos Carmen
Cecilia Chen Chiara Chidi Clara Claire Daniel David Deepa Diana Diego Dmitri Edith Elena
Elias Elif Emil Emma Erik Esther Eva Fatima Felix Fiona Franz Freya Gabriel George Gita
Grace Greta Hana Hannah Hans Hassan Helen Hiro Hugo Ibrahim Ida Igor Ines Ingrid Irene
Isaac Isabel Ivan Jack Jana Javier Jean Joana John Jonas Jorge Jose Julia Kai Karim
Karin Kenji Kofi Lars Laura Lea Leila Leo Li Lina Linus Lucia Luis Mai Malik Marco Maria
Mario Marta Martin Mateo Maya Mei Mia Miguel Mina Mohamed Nadia Nina Nora Oliver Olga
Omar Oscar Otto Pablo Paul Pedro Petra Priya Quentin Rachel Rafael Ravi Rita Robert Rosa
Ruth Samir Sana Sara Sato Sven Tara Thomas Tomas Uma Ursula Valentin Vera Victor Viktor
Wei Yara Yuki Zara Zoe
""".split()

LAST = """
Abe Adams Adeyemi Ahmed Ali Almeida Andersen Bakker Banerjee Barbosa Bauer Becker Bell
Berg Bianchi Brown Castro Chan Chen Clark Cohen Costa Cruz Das Davies Diaz Dubois Duran
Eriksen Evans Farah Fernandez Ferrari Fischer Flores Fontaine Garcia Gomez Gonzalez
Green Gupta Haddad Hall Hansen Harris Hassan Hernandez Hill Hoffmann Horvath Huang
Hughes Ibrahim Ito Ivanov Jackson Jansen Jensen Johnson Jones Joshi Kaya Keller Khan Kim
King Klein Kobayashi Koch Kovacs Kowalski Kumar Larsen Laurent Lee Lehmann Leroy Lewis
Li Lima Lin Lopez Mahmoud Martin Martinez Mendes Mensah Meyer Miller Moreau Moreira
Morgan Morris Mueller Murphy Nakamura Nelson Nguyen Nielsen Novak Nowak Okafor Olsen
Ortiz Osei Papadakis Park Patel Pereira Petrov Phillips Popescu Ramos Rao Richter Rivera
Roberts Rossi Roux Russo Saito Santos Sato Schmidt Schneider Schulz Shah Sharma Silva
Singh Smirnov Smith Sokolov Suzuki Svensson Tanaka Taylor Thomas Toth Tran Turner Vargas
Vasquez Virtanen Walker Wang Weber White Williams Wilson Wong Wright Yamada Yang Yilmaz
Young Zhang Zhou Zimmermann
""".split()
